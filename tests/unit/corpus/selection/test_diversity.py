"""Topics in turn, harder problems more often."""

from __future__ import annotations

import numpy as np

from pipeline.corpus.selection.diversity import diverse_order, tickets
from pipeline.corpus.selection.entries import Entries
from tests.support.entries import make_entries


def order(entries: Entries, seed: int = 0, rank: list[int] | None = None) -> list[int]:
    places = np.arange(len(entries), dtype=np.int32)
    ranks = np.asarray(rank or [0] * len(entries), dtype=np.int32)
    return diverse_order(entries, places, ranks, seed).tolist()


def test_topics_take_turns_however_many_problems_they_have() -> None:
    topics = [5] * 60 + [40] * 6 + [80] * 2
    entries = make_entries([(number, 10) for number in range(68)], topics=topics)
    heard = [topics[place] for place in order(entries)]
    assert [set(heard[start : start + 3]) for start in (0, 3)] == [{5, 40, 80}] * 2
    assert [set(heard[start : start + 2]) for start in (6, 8, 10, 12)] == [{5, 40}] * 4
    assert set(heard[14:]) == {5}


def test_second_traces_wait_for_all_first_ones() -> None:
    entries = make_entries([(number // 2, 10) for number in range(20)], topics=[0, 0, 9, 9] * 5)
    assert all(place % 2 == 0 for place in order(entries, rank=[0, 1] * 10)[:10])


def test_hard_problems_enter_in_proportion_to_their_tickets() -> None:
    tiers = ["easy"] * 100 + ["medium"] * 100 + ["hard"] * 100
    entries = make_entries([(number, 10) for number in range(300)], tiers=tiers)
    firsts = [tiers[order(entries, seed)[0]] for seed in range(700)]
    counts = [firsts.count(one) for one in ("easy", "medium", "hard")]
    for count, due in zip(counts, (100, 200, 400), strict=True):
        assert abs(count - due) < 4 * due**0.5


def test_length_stands_in_for_an_unknown_tier() -> None:
    tiers = ["unknown"] * 9 + ["hard", "easy", "medium"]
    lengths = [90, 10, 50, 20, 60, 80, 30, 40, 70, 1, 999, 5]
    entries = make_entries(list(enumerate(lengths)), tiers=tiers)
    places = np.arange(12, dtype=np.int32)
    assert tickets(entries, places).tolist() == [4, 1, 2, 1, 2, 4, 1, 2, 4, 4, 1, 2]
    assert tickets(entries, places[9:]).tolist() == [4, 1, 2]
