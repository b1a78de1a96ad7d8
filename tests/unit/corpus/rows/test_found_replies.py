"""Replies in every arrangement; one that is broken does not cost the others."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.base.params_corpus import SourceParams
from pipeline.corpus.rows.schemas import read_candidates
from pipeline.corpus.rows.text import RowFault

ROW = {"problem": "1 + 1?", "final_answer": "2"}
A, B = "<think>first</think>So \\boxed{2}.", "<think>second</think>Thus \\boxed{2}."


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"generations": [A, B]}, "generations"),
        ({"r1_solution_1": A, "r1_solution_2": B}, "r1_solution_*"),
        ({"responses": [{"text": A}, {"content": B}]}, "responses"),
        (
            {
                "completions": [
                    [{"role": "assistant", "content": A}],
                    [{"role": "assistant", "content": "Thus \\boxed{2}.", "thinking": "second"}],
                ]
            },
            "completions",
        ),
        ({"outputs": [{"text": "So \\boxed{2}.", "reasoning": "first"}, {"text": B}]}, "outputs"),
    ],
)
def test_arrangements_of_several_replies_agree(given: dict[str, Any], key: str) -> None:
    found = read_candidates(ROW | given)
    assert [(one.thinking, one.solution) for one in found] == [
        ("first", "So \\boxed{2}."),
        ("second", "Thus \\boxed{2}."),
    ]
    assert found[0].schema == f"problem/{key}/final_answer"


def test_a_broken_reply_among_several_carries_its_own_fault() -> None:
    found = read_candidates(ROW | {"generations": [A, "<think>for ever", None, 5 * B]})
    assert [one.fault and one.fault[0] for one in found] == [
        *(None, "unfinished-thinking", None, "malformed-thinking")
    ]
    assert [one.solution for one in found] == ["So \\boxed{2}.", "", "", ""]
    with pytest.raises(RowFault, match="unfinished-thinking"):
        read_candidates(ROW | {"generations": ["<think>for ever"]})


def test_reference_solutions_come_first_only_where_the_source_is_of_that_kind() -> None:
    row = ROW | {"generation": A, "solution": "Clearly \\boxed{2}."}
    assert read_candidates(row)[0].solution == "So \\boxed{2}."
    source = SourceParams(path="x", kind="solutions")
    assert read_candidates(row, source)[0].solution == "Clearly \\boxed{2}."


def test_code_is_a_reply_only_beside_its_scores() -> None:
    assert read_candidates(ROW | {"code": ["print(2)"]})[0].solution == ""
    assert read_candidates(ROW | {"code": [A], "pred": ["2"]})[0].thinking == "first"
