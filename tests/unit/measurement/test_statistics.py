"""Rates and intervals against enumeration and published figures."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.measurement.statistics import (
    best_of_k,
    majority_at_k,
    mean_at_k,
    mean_pass_at_k,
    pass_at_k,
    wilson_interval,
)


@pytest.mark.parametrize(("replies", "correct", "k"), [(5, 2, 3), (6, 1, 2), (4, 4, 1), (4, 0, 4)])
def test_pass_at_k_is_the_share_of_draws(replies: int, correct: int, k: int) -> None:
    draws = list(combinations([True] * correct + [False] * (replies - correct), k))
    assert pass_at_k(replies, correct, k) == pytest.approx(sum(map(any, draws)) / len(draws))


@given(replies=st.integers(1, 40), data=st.data())
def test_pass_at_k_limits(replies: int, data: st.DataObject) -> None:
    correct = data.draw(st.integers(0, replies))
    assert pass_at_k(replies, correct, 1) == pytest.approx(correct / replies)
    assert pass_at_k(replies, correct, replies) == (1.0 if correct else 0.0)


@pytest.mark.parametrize(("replies", "correct", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4)])
def test_pass_at_k_refuses_nonsense(replies: int, correct: int, k: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        pass_at_k(replies, correct, k)


def test_mean_over_problems() -> None:
    assert mean_pass_at_k([(4, 1), (4, 3)], 1) == pytest.approx(0.5)
    assert mean_pass_at_k([(4, 0), (4, 1)], 4) == pytest.approx(0.5)
    assert mean_pass_at_k([], 1) is None


@pytest.mark.parametrize(
    ("successes", "problems", "low", "high"),
    # Newcombe 1998 (Statistics in Medicine 17, p. 861), method 3.
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_against_published_values(
    successes: int, problems: int, low: float, high: float
) -> None:
    assert wilson_interval(successes / problems, problems) == pytest.approx((low, high), abs=6e-5)


def test_wilson_is_none_without_problems() -> None:
    assert wilson_interval(None, 10) is None
    assert wilson_interval(0.5, 0) is None


@given(rate=st.floats(0, 1), problems=st.integers(1, 10_000))
def test_wilson_holds_the_rate(rate: float, problems: int) -> None:
    interval = wilson_interval(rate, problems)
    assert interval is not None
    low, high = interval
    assert 0.0 <= low <= rate + 1e-12
    assert rate - 1e-12 <= high <= 1.0


def test_best_and_mean_at_k() -> None:
    assert (best_of_k([False, True]), best_of_k([False, False]), best_of_k([])) == (1.0, 0.0, 0.0)
    assert mean_at_k([True, False, False, False]) == 0.25
    with pytest.raises(ValueError, match="no reply"):
        mean_at_k([])


@pytest.mark.parametrize(
    ("answers", "chance"),
    [
        ([("5", True), ("5", True), ("6", False)], 1.0),
        ([("5", True), ("6", False), ("6", False)], 0.0),
        ([("5", True), ("6", False)], 0.5),
        ([("5", True), ("6", False), ("7", False)], pytest.approx(1 / 3)),
        ([("5", True), ("5.0", True), ("6", False), ("6", False), ("7", False)], 0.5),
        ([("", False), ("", False), ("5", True)], 1.0),
        ([("", False)], 0.0),
        ([("right", False), ("5", True)], 0.5),
    ],
)
def test_majority_at_k(answers: list[tuple[str, bool]], chance: float) -> None:
    assert majority_at_k(answers) == chance
