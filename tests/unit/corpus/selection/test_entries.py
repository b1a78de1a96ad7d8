"""Lines of Trace as columns of numbers."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.base.errors import UserError
from pipeline.base.records import to_line
from pipeline.corpus.selection.entries import TIERS, read_entries
from pipeline.corpus.selection.topics import topic_of
from tests.support.traces import make_trace

ROWS = [
    make_trace("A?", "1", source="b", tokens=70, tier="hard", solve_rate=0.25, weight=2.0),
    make_trace("B?", "1", source="a", tokens=50, group="00000000000000ff"),
    make_trace("C triangle", "1", source="b", tokens=60, tier="easy", solve_rate=0.7, weight=2.0),
]


def test_every_column() -> None:
    entries = read_entries(map(to_line, ROWS), "kept", {"a": 1, "b": 0, "unused": 2})
    assert len(entries) == 3
    assert entries.tokens.tolist() == [70, 50, 60]
    assert entries.group.tolist() == [int(ROWS[0].id, 16), 255, int(ROWS[2].id, 16)]
    assert [entries.sources[one] for one in entries.source] == ["b", "a", "b"]
    assert [TIERS[one] for one in entries.tier] == ["hard", "unknown", "easy"]
    assert np.array_equal(entries.solve_rate, [0.25, np.nan, 0.7], equal_nan=True)
    assert entries.topic.tolist() == [topic_of(row.problem) for row in ROWS]
    assert (entries.entry, entries.weights) == ([0, 1], {0: 2.0, 1: 1.0})


def test_no_rows() -> None:
    assert len(read_entries([], "kept", {})) == 0


def test_a_row_costs_27_bytes() -> None:
    entries = read_entries([to_line(ROWS[0])] * 3, "kept", {"b": 0})
    columns = [entries.tokens, entries.group, entries.source, entries.tier]
    columns += [entries.solve_rate, entries.topic]
    assert sum(column.nbytes for column in columns) == 3 * 27


def test_unknown_files_and_tiers_are_refused_with_their_line() -> None:
    with pytest.raises(UserError, match=r"kept:2: source 'a' is no file of .*data\.json"):
        read_entries(map(to_line, ROWS), "kept", {"b": 0})
    with pytest.raises(UserError, match=r"kept:1: tier 'steep'"):
        read_entries([to_line(make_trace(tier="steep", source="b"))], "kept", {"b": 0})
