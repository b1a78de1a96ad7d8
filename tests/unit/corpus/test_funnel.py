"""Counts add up, unreadable files stop a run, an empty result says why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pipeline.base.errors import UserError
from pipeline.base.records import Dropped
from pipeline.corpus.funnel import (
    SourceTally,
    describe_funnel,
    dropped_row,
    nothing_left,
    read_tally,
    write_tally,
)
from pipeline.corpus.rows.strict_json import Row
from pipeline.corpus.rows.text import RowFault


def tally(good: int, bad: int, reason: str = "not-json") -> SourceTally:
    found = SourceTally("x.jsonl")
    for number in range(good + bad):
        fault = RowFault(reason, "why") if number >= good else None
        found.note_row(
            Row("x.jsonl", f"x.jsonl:{number}", {} if fault is None else None, fault, "")
        )
    return found


@pytest.mark.parametrize(("good", "bad", "share"), [(3, 1, 0.05), (95, 5, 0.05), (0, 1, 1.0)])
def test_few_unreadable_rows_pass(good: int, bad: int, share: float) -> None:
    tally(good, bad).require_readable(share)


@pytest.mark.parametrize(("good", "bad", "share"), [(94, 6, 0.05), (99, 1, 0.0), (1, 2, 0.5)])
def test_many_unreadable_rows_stop_and_name_the_first(good: int, bad: int, share: float) -> None:
    with pytest.raises(UserError, match=rf"x\.jsonl:{good}: not-json \(why\)"):
        tally(good, bad).require_readable(share)


def test_damaged_content_is_not_an_unreadable_file() -> None:
    tally(0, 9, "control-character").require_readable(0.0)


def test_totals_are_the_sums_of_the_files() -> None:
    one = SourceTally("a", read=6, kept=2, held_out=1, reserved=1, dropped=Counter({"no-box": 2}))
    two = SourceTally("b", read=3, kept=2, dropped=Counter({"no-box": 1}))
    one.schemas.update({"messages": 1, "problem/answer": 2})
    funnel = describe_funnel([one, two])
    assert (funnel["read"], funnel["kept"], funnel["held_out"]) == (9, 4, 1)
    assert funnel["reserved"] == 1
    assert funnel["dropped"] == {"no-box": 3}
    assert funnel["sources"][0]["schema"] == "problem/answer (2), messages (1)"
    assert describe_funnel([])["read"] == 0


def test_shards_add_up_to_their_file(tmp_path: Path) -> None:
    first, second = tally(3, 1), tally(2, 2)
    first.schemas.update({"b": 1})
    second.schemas.update({"a": 1, "b": 1})
    second.notes["cut"] += 3
    first.drop(Dropped("f:1", "f", "no-box", "why", ""))
    second.drop(Dropped("f:2", "f", "no-box", "later", ""))
    second.drop(Dropped("f:3", "f", "no-gold", "none", ""))
    write_tally(tmp_path / "tally.json", second)
    first.add(read_tally(tmp_path / "tally.json"))
    assert (first.rows, first.unreadable) == (8, 3)
    assert first.first_unreadable == "x.jsonl:3: not-json (why)"
    assert first.dropped == {"no-box": 2, "no-gold": 1}
    assert first.examples == {"no-box": "f:1: why", "no-gold": "f:3: none"}
    assert first.summary()["notes"] == {"cut": 3}
    assert first.summary()["schema"] == "b (2), a (1)"


def test_an_empty_result_names_reasons_an_example_and_a_remedy() -> None:
    counts = Counter({"no-gold": 2, "no-box": 1})
    error = nothing_left(3, counts, "dropped.jsonl", {"no-gold": "f:1: why", "no-box": "f:3: x"})
    assert "none of 3 rows is left (no-gold 2, no-box 1; e.g. f:1: why)" in str(error)
    assert "Add a column `answer`" in str(error)
    assert "dropped.jsonl" in str(error)
    assert "docs/data.md" in str(nothing_left(0, Counter()))
    assert "plan.sequence_tokens" in str(nothing_left(4, Counter({"over-long": 4})))


def test_dropped_rows_are_strict_utf8() -> None:
    row = dropped_row("f:1", "f", RowFault("not-json", "bad \ud800"), "half \ud83d\x00")
    (row.detail + row.excerpt).encode()
    assert "\x00" not in row.excerpt
