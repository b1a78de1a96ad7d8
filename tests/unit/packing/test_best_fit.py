"""Packing: nothing lost, nothing cut, nothing over the limit, little room wasted."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.packing.best_fit import best_fit_decreasing, fill

LIMIT = 32
LENGTHS = st.lists(st.integers(1, LIMIT), max_size=60)


def pack(lengths: list[int], limit: int = LIMIT) -> list[list[int]]:
    return best_fit_decreasing(np.array(lengths, dtype=np.int32), limit).bins()


def one_by_one(lengths: list[int], limit: int) -> list[list[int]]:
    """The rule as it is told: longest first, least room, of several the bin touched last."""
    bins: list[list[int]] = []
    free: list[tuple[int, int]] = []  # room and bin, in the order in which they were touched
    for document in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
        fitting = [room for room, _ in free if room >= lengths[document]]
        if fitting:
            place = max(n for n, (room, _) in enumerate(free) if room == min(fitting))
            room, number = free.pop(place)
        else:
            room, number = limit, len(bins)
            bins.append([])
        bins[number].append(document)
        free.append((room - lengths[document], number))
    return bins


def first_fit(lengths: list[int], limit: int) -> int:
    """Bins that the naive way needs: each document, as it comes, where it first fits."""
    rooms: list[int] = []
    for length in lengths:
        place = next((i for i, room in enumerate(rooms) if room >= length), None)
        if place is None:
            rooms.append(limit - length)
        else:
            rooms[place] -= length
    return len(rooms)


@given(LENGTHS)
def test_is_what_the_rule_gives_document_by_document(lengths: list[int]) -> None:
    assert pack(lengths) == one_by_one(lengths, LIMIT)


def test_lengths_of_more_than_16_bits_keep_to_the_rule() -> None:
    lengths = [66_000, 5, 131_000, 70_000, 131_072, 65_535, 65_536, 3, 131_000, 1]
    assert pack(lengths, 140_000) == one_by_one(lengths, 140_000)


@given(LENGTHS)
def test_every_document_is_in_exactly_one_bin(lengths: list[int]) -> None:
    assert sorted(number for one in pack(lengths) for number in one) == list(range(len(lengths)))


@given(LENGTHS)
def test_no_bin_is_empty_or_over_the_limit(lengths: list[int]) -> None:
    for one in pack(lengths):
        assert 0 < sum(lengths[number] for number in one) <= LIMIT


@given(LENGTHS)
def test_no_two_bins_would_fit_into_one(lengths: list[int]) -> None:
    used = sorted(sum(lengths[n] for n in one) for one in pack(lengths))
    assert len(used) < 2 or used[0] + used[1] > LIMIT


@given(LENGTHS)
def test_stays_within_the_known_bound_of_any_other_packing(lengths: list[int]) -> None:
    # Longest-first fitting needs at most 11/9 of the best possible, + 6/9; first-fit is not better.
    assert len(pack(lengths)) <= (11 * first_fit(lengths, LIMIT) + 6) / 9


@pytest.mark.parametrize("limit", [4096, 70_000])
def test_fills_what_a_mix_of_short_and_long_documents_takes(limit: int) -> None:
    draws = np.random.default_rng(1).lognormal(np.log(0.1 * limit), 0.9, 50_000)
    lengths = np.clip(draws, 20, limit).astype(np.int32)
    packing = best_fit_decreasing(lengths, limit)
    assert fill(int(lengths.sum()), len(packing.counts), limit) >= 0.999
    assert packing.counts.sum() == len(lengths)


def test_takes_no_object_for_a_document() -> None:
    lengths = np.random.default_rng(2).integers(1, 4097, 100_000).astype(np.int32)
    best_fit_decreasing(lengths[:10], 4096)
    tracemalloc.start()
    try:
        best_fit_decreasing(lengths, 4096)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak + lengths.nbytes < 60 * len(lengths)


def test_equal_input_gives_equal_output() -> None:
    lengths = np.random.default_rng(3).integers(1, 513, 5000).astype(np.int32)
    first, again = best_fit_decreasing(lengths, 512), best_fit_decreasing(lengths.copy(), 512)
    assert np.array_equal(first.documents, again.documents)
    assert np.array_equal(first.counts, again.counts)
    assert (first.documents.dtype, first.counts.dtype) == (np.int32, np.int32)


def test_best_fit_takes_the_tightest_room() -> None:
    # Rooms of 2, 3 and 4 are free when the 3 comes: neither the first nor the widest is right.
    assert pack([8, 7, 6, 3], 10) == [[0], [1, 3], [2]]


def test_equal_documents_keep_their_order() -> None:
    assert pack([5, 5, 5, 5], 10) == [[0, 1], [2, 3]]


def test_few_short_documents_still_make_a_bin() -> None:  # C04
    assert pack([3, 4, 5], 32768) == [[2, 1, 0]]


@pytest.mark.parametrize(("lengths", "named"), [([4, 11], "document 1"), ([0, 4], "document 0")])
def test_what_does_not_fit_is_refused_not_cut(lengths: list[int], named: str) -> None:
    with pytest.raises(UserError, match=named):
        pack(lengths, 10)


def test_fill_is_the_share_of_room_that_is_used() -> None:
    assert fill(15, 2, 10) == 0.75
    assert fill(0, 0, 10) == 0.0
