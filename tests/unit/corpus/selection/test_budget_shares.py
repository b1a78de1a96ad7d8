"""The budget over tiers and sources."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.selection.budget_shares import fill, running_total
from pipeline.corpus.selection.entries import Entries
from tests.support.entries import make_entries


def turns(entries: Entries) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.arange(len(entries), dtype=np.int32)


def tokens_by(
    entries: Entries, keys: np.ndarray, budget: int, shares: dict[str, float] | None
) -> list[int]:  # type: ignore[type-arg]
    taken = fill(entries, turns(entries), budget, shares).chosen
    return [int(entries.tokens[taken & (keys == one)].sum()) for one in np.unique(keys)]


def test_tiers_get_their_shares_and_spill_what_they_lack() -> None:
    tiers = ["easy"] * 50 + ["medium"] * 10 + ["hard"] * 50
    entries = make_entries([(number, 10) for number in range(110)], tiers=tiers)
    shares = {"easy": 0.25, "medium": 0.5, "hard": 0.25}
    assert tokens_by(entries, entries.tier, 200, shares) == [50, 100, 50]
    assert tokens_by(entries, entries.tier, 400, shares) == [150, 100, 150]
    assert tokens_by(entries, entries.tier, 5000, shares) == [500, 100, 500]


def test_weights_are_shares_of_the_entries_not_of_their_files() -> None:
    entries = make_entries(
        [(n, 10) for n in range(120)], sources=[0, 1, 2] * 40, weights={0: 3, 1: 1}
    )
    entries = Entries(**{**vars(entries), "entry": [0, 0, 1]})
    assert tokens_by(entries, entries.source, 400, None) == [150, 150, 100]


def test_equal_weights_ask_for_nothing() -> None:
    entries = make_entries([(n, 10) for n in range(100)], sources=[0] * 90 + [1] * 10)
    assert tokens_by(entries, entries.source, 500, None) == [500, 0]


def test_sources_split_each_tier() -> None:
    entries = make_entries(
        [(number, 10) for number in range(200)],
        tiers=["easy", "hard"] * 100,
        sources=[0, 0, 1, 1] * 50,
        weights={0: 1, 1: 4},
    )
    cells = entries.tier.astype(int) * 2 + entries.source
    assert tokens_by(entries, cells, 400, {"easy": 1, "hard": 3}) == [20, 80, 60, 240]


def test_unused_tokens_of_many_parts_buy_rows_together() -> None:
    entries = make_entries([(n, 30) for n in range(40)], sources=list(range(10)) * 4,
                           weights={n: 1 + n / 1000 for n in range(10)})  # fmt: skip
    taken = fill(entries, turns(entries), 250, None).chosen
    assert int(entries.tokens[taken].sum()) == 240
    assert len(set(entries.source[taken].tolist())) == 8


def test_the_part_with_the_most_unused_tokens_buys_first() -> None:
    rows = [(0, 40), (1, 40), (2, 50), (3, 50)]
    entries = make_entries(rows, sources=[0, 0, 1, 1], weights={0: 5, 1: 6})
    # Of 140 tokens the parts may use 64 and 76; one row each leaves 24 and 26 unused.
    assert fill(entries, turns(entries), 140, None).chosen.tolist() == [True, False, True, True]
    # Of 130 they leave 40 together: the next row of the second part does not fit, and that ends it.
    assert fill(entries, turns(entries), 130, None).chosen.tolist() == [True, False, True, False]


def test_a_part_stops_at_its_first_row_that_does_not_fit() -> None:
    entries = make_entries([(0, 60), (1, 60), (2, 10), (3, 10)])
    assert fill(entries, turns(entries), 100, None).chosen.tolist() == [True, False, False, False]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=20))
def test_running_totals(rows: list[tuple[int, int]]) -> None:
    cells = np.asarray([row[0] for row in rows], dtype=np.intp)
    tokens = np.asarray([row[1] for row in rows], dtype=np.int64)
    expected = [
        sum(one[1] for one in rows[: place + 1] if one[0] == row[0])
        for place, row in enumerate(rows)
    ]
    assert running_total(tokens, cells).tolist() == expected
