"""A source's own mapping comes before every detection."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.base.params_corpus import SourceParams
from pipeline.corpus.rows.columns import present
from pipeline.corpus.rows.schemas import Candidate, read_candidates, read_question
from pipeline.corpus.rows.text import RowFault

ROW = {
    "problem": "not this",
    "Q": "1 + 1?",
    "answer": "not this",
    "info": {"Truth": 2},
    "solution": "not this \\boxed{9}",
    "reply": "So \\boxed{2}.",
    "thinking": "not this",
    "notes": "One and one.",
    "id": "not this",
    "key": 7,
}
COLUMNS = {
    "problem": "q", "gold": "info.truth", "solution": "Reply", "thinking": "notes", "id": "key",
}  # fmt: skip


def one(row: dict[str, Any], columns: dict[str, str]) -> Candidate:
    found = read_candidates(row, SourceParams(path="x", columns=columns))
    assert len(found) == 1
    return found[0]


def test_mapped_columns_win() -> None:
    found = one(ROW, COLUMNS)
    assert (found.problem, found.gold, found.gold_from) == ("1 + 1?", "2", "stated")
    assert (found.thinking, found.solution) == ("One and one.", "So \\boxed{2}.")
    assert found.row_id == "7"
    assert "problem=q" in found.schema
    assert "gold=info.truth" in found.schema
    source = SourceParams(path="x", columns=COLUMNS)
    assert read_question(ROW, source) == ("1 + 1?", "2")


def test_a_mapped_column_that_is_missing_is_not_guessed() -> None:
    row = {key: value for key, value in ROW.items() if key not in ("reply", "info", "notes")}
    found = one(row, COLUMNS)
    assert (found.solution, found.thinking, found.gold) == ("", "", "")
    with pytest.raises(RowFault, match="no column `gone`"):
        one(ROW, {"problem": "gone"})


def test_a_conversation_may_be_mapped_as_the_problem() -> None:
    turns = [{"from": "human", "value": "1 + 1?"}, {"from": "gpt", "value": "So \\boxed{2}."}]
    found = one({"dialog": turns, "prompt": "not this", "answer": "2"}, {"problem": "dialog"})
    assert (found.problem, found.solution, found.gold) == ("1 + 1?", "So \\boxed{2}.", "2")


def test_one_half_mapped_ends_the_pairing() -> None:
    row = {"problem": "1 + 1?", "x_thinking": "no", "x_answer": "no", "r": "So \\boxed{2}."}
    assert one(row, {"solution": "r"}).solution == "So \\boxed{2}."


def test_only_what_holds_something_is_present() -> None:
    row = {"A": " \n", "b": [], "C": {}, "d": 0, "e": False, "F": "x", "f": "y", "g": None}
    assert present(row) == {"d": 0, "e": False, "f": "x"}
