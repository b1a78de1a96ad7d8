"""Who agrees with whom, and what follows under either policy."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from pipeline.corpus.copies.golds import (
    AGREED,
    CONFLICT,
    MINORITY,
    NO_ENTRY,
    GoldVerdicts,
    Statement,
    Statements,
    settle_golds,
)
from pipeline.corpus.copies.shard_store import TextWriter, hash64, read_text

Said = tuple[int, str, bool]
"""Group, answer, stated."""


def settle(
    folder: Path, rows: list[Said], policy: Literal["drop", "majority"], mute: tuple[int, ...] = ()
) -> tuple[GoldVerdicts, list[str]]:
    """Verdicts, and for every entry the text that says why."""
    said = Statements(
        np.array([group for group, _, _ in rows], dtype=np.int32),
        np.array([hash64(gold) for _, gold, _ in rows], dtype=np.uint64),
        np.array([stated for _, _, stated in rows], dtype=np.bool_),
        np.array([number not in mute for number in range(len(rows))], dtype=np.bool_),
    )
    writer = TextWriter(folder, "why")

    def text(place: int) -> Statement:
        return Statement(rows[place][1], f"f:{place}", f"problem {rows[place][0]}")

    found = settle_golds(said, 9, policy, text, writer)
    writer.close()
    why = [read_text(folder, "why", at) if at != NO_ENTRY else "" for at in found.detail.tolist()]
    return found, why


def test_equal_answers_agree(tmp_path: Path) -> None:
    rows = [(3, "1/2", True), (3, "0.5", True), (4, "7", True), (3, r"\frac12", True)]
    found, _ = settle(tmp_path, rows, "drop")
    assert found.outcome.tolist() == [AGREED] * 4
    assert (found.teller[3], found.teller[4], found.teller[5]) == (0, 2, NO_ENTRY)
    assert found.report == {"stated": 0, "own": 0, "majority": 0}


def test_a_contradiction_takes_all_and_is_shown_with_its_places(tmp_path: Path) -> None:
    rows = [(0, "4", True), (0, "4", True), (0, "5", True), (0, "9", False), (1, "5", True)]
    found, why = settle(tmp_path, rows, "drop")
    assert found.outcome.tolist() == [CONFLICT, CONFLICT, CONFLICT, AGREED, AGREED]
    assert why[0] == "'4' (f:0) and '5' (f:2)"
    assert found.report["stated"] == 1
    example = found.examples[0]
    assert [(one["gold"], one["rows"]) for one in example["answers"]] == [("4", 2), ("5", 1)]
    assert not example["kept"]


def test_more_than_half_of_the_rows_decide(tmp_path: Path) -> None:
    rows = [(0, "5", True), (0, "4", True), (0, "4.0", True), (0, "4", True)]
    found, why = settle(tmp_path, rows, "majority")
    assert found.outcome.tolist() == [MINORITY, AGREED, AGREED, AGREED]
    assert why[0] == "'5'; 3 of 4 rows say '4'"
    assert found.teller[0] == 1, "the majority's answer stands for the group"
    assert found.report == {"stated": 0, "own": 0, "majority": 1}


def test_half_is_no_majority_and_a_copy_has_no_vote(tmp_path: Path) -> None:
    rows = [(0, "4", True), (0, "4", True), (0, "5", True), (0, "6", True)]
    assert settle(tmp_path, rows, "majority")[0].outcome.tolist() == [CONFLICT] * 4
    rows = [(0, "4", True), (0, "4", True), (0, "5", True)]
    assert settle(tmp_path, rows, "majority")[0].outcome.tolist() == [AGREED, AGREED, MINORITY]
    muted = settle(tmp_path, rows, "majority", mute=(1,))[0]
    assert muted.outcome.tolist() == [CONFLICT] * 3


def test_replies_own_boxes_count_where_nobody_states_an_answer(tmp_path: Path) -> None:
    rows = [(0, "1", False), (0, "2", False), (0, "1", False), (1, "1", False), (1, "1", False)]
    for policy in ("drop", "majority"):
        found, _ = settle(tmp_path, rows, policy)
        assert found.outcome.tolist() == [CONFLICT] * 3 + [AGREED] * 2
        assert found.report["own"] == 1
        assert found.teller[0] == NO_ENTRY


def test_a_flood_of_answers_is_not_compared_in_pairs(tmp_path: Path) -> None:
    rows = [(0, str(number), True) for number in range(3000)]
    found, _ = settle(tmp_path, rows, "majority")
    assert set(found.outcome.tolist()) == {CONFLICT}
    assert len(found.examples[0]["answers"]) == 5


def test_nothing_at_all(tmp_path: Path) -> None:
    assert settle(tmp_path, [], "drop")[0].examples == []
