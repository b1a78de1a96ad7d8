"""Packing: nothing lost, nothing cut, nothing over the limit, little room wasted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.packing.best_fit import best_fit_decreasing, fill

LIMIT = 32
LENGTHS = st.lists(st.integers(1, LIMIT), max_size=60)


def first_fit(lengths: list[int], limit: int) -> int:
    """Sequences that the naive way needs: each document, as it comes, where it first fits."""
    rooms: list[int] = []
    for length in lengths:
        place = next((i for i, room in enumerate(rooms) if room >= length), None)
        if place is None:
            rooms.append(limit - length)
        else:
            rooms[place] -= length
    return len(rooms)


@given(LENGTHS)
def test_every_document_is_in_exactly_one_sequence(lengths: list[int]) -> None:
    packed = best_fit_decreasing(lengths, LIMIT)
    assert sorted(number for one in packed for number in one) == list(range(len(lengths)))


@given(LENGTHS)
def test_no_sequence_is_empty_or_over_the_limit(lengths: list[int]) -> None:
    for one in best_fit_decreasing(lengths, LIMIT):
        assert 0 < sum(lengths[number] for number in one) <= LIMIT


@given(LENGTHS)
def test_no_two_sequences_would_fit_into_one(lengths: list[int]) -> None:
    used = sorted(sum(lengths[n] for n in one) for one in best_fit_decreasing(lengths, LIMIT))
    assert len(used) < 2 or used[0] + used[1] > LIMIT


@given(LENGTHS)
def test_stays_within_the_known_bound_of_any_other_packing(lengths: list[int]) -> None:
    # Longest-first fitting needs at most 11/9 of the best possible, + 6/9; first-fit is not better.
    assert len(best_fit_decreasing(lengths, LIMIT)) <= (11 * first_fit(lengths, LIMIT) + 6) / 9


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("typical", [0.05, 0.2, 0.45])
def test_fills_more_than_first_fit_on_lengths_like_those_of_traces(
    seed: int, typical: float
) -> None:
    draws = np.random.default_rng(seed).lognormal(np.log(typical * 4096), 0.7, 600)
    lengths = np.clip(draws, 20, 4096).astype(int).tolist()
    packed = best_fit_decreasing(lengths, 4096)
    assert len(packed) <= first_fit(lengths, 4096)
    assert fill(lengths, len(packed), 4096) > 0.9


@given(LENGTHS)
def test_is_deterministic_and_takes_arrays(lengths: list[int]) -> None:
    again = best_fit_decreasing(np.array(lengths, dtype=np.int32), LIMIT)  # type: ignore[arg-type]
    assert best_fit_decreasing(lengths, LIMIT) == again


def test_best_fit_takes_the_tightest_room() -> None:
    # Rooms of 2, 3 and 4 are free when the 3 comes: neither the first nor the widest is right.
    assert best_fit_decreasing([8, 7, 6, 3], 10) == [[0], [1, 3], [2]]


def test_equal_documents_keep_their_order() -> None:
    assert best_fit_decreasing([5, 5, 5, 5], 10) == [[0, 1], [2, 3]]


def test_few_short_documents_still_make_a_sequence() -> None:
    assert best_fit_decreasing([3, 4, 5], 32768) == [[2, 1, 0]]


@pytest.mark.parametrize(("lengths", "named"), [([4, 11], "document 1"), ([0, 4], "document 0")])
def test_what_does_not_fit_is_refused_not_cut(lengths: list[int], named: str) -> None:
    with pytest.raises(UserError, match=named):
        best_fit_decreasing(lengths, 10)


def test_fill_is_the_share_of_room_that_is_used() -> None:
    assert fill([6, 4, 5], 2, 10) == 0.75
    assert fill([], 0, 10) == 0.0
