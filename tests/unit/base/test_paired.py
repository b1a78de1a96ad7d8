"""Two runs compared, against enumeration, published figures and simulation."""

from __future__ import annotations

import random
import statistics
from itertools import product

import pytest

from pipeline.base.paired import (
    bootstrap_interval,
    compare_runs,
    detectable_between,
    detectable_difference,
    mcnemar_exact,
)


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (1, 0), (5, 1), (3, 3), (2, 7)])
def test_mcnemar_counts_the_splits(better: int, worse: int) -> None:
    split = max(better, worse)
    flips = list(product([0, 1], repeat=better + worse))
    extreme = sum(sum(flip) >= split or len(flip) - sum(flip) >= split for flip in flips)
    assert mcnemar_exact(better, worse) == pytest.approx(extreme / len(flips))
    assert mcnemar_exact(better, worse) == mcnemar_exact(worse, better)


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    draws = random.Random(1)
    values = [draws.random() for _ in range(400)]
    low, high = bootstrap_interval(values)
    half = 1.96 * statistics.stdev(values) / 20
    mean = statistics.mean(values)
    assert (low, high) == pytest.approx((mean - half, mean + half), abs=0.006)
    assert bootstrap_interval(values) == (low, high)
    assert bootstrap_interval(values, seed=1) != (low, high)


def test_bootstrap_of_equal_values_is_a_point() -> None:
    assert bootstrap_interval([0.5] * 9) == (0.5, 0.5)
    with pytest.raises(ValueError, match="no problem"):
        bootstrap_interval([])


def test_a_detectable_difference_is_found_four_times_in_five() -> None:
    draws = random.Random(0)
    chances, size = (0.02, 0.14), 400  # worse, better
    gaps = [1.0] * 56 + [-1.0] * 8 + [0.0] * (size - 64)
    bound = detectable_difference(gaps)
    found = 0
    for _ in range(300):
        shift = (bound - (chances[1] - chances[0])) / 2
        worse, better = chances[0] - shift, chances[1] + shift
        marks = draws.choices([-1, 1, 0], [worse, better, 1 - worse - better], k=size)
        mean = statistics.mean(marks)
        found += abs(mean) > 1.96 * statistics.stdev(marks) / size**0.5
    # The true difference is `bound`, with a spread near that of `gaps`.
    assert 0.72 < found / 300 < 0.88


@pytest.mark.parametrize(
    ("gaps", "bound"), [([], 1.0), ([0.0] * 50, 0.02), ([1.0], 1.0), ([1.0, -1.0] * 2, 1.0)]
)
def test_detectable_difference_at_its_ends(gaps: list[float], bound: float) -> None:
    assert detectable_difference(gaps) == pytest.approx(bound)


def test_detectable_between_two_panels() -> None:
    # By hand: 2.8016 * sqrt(2 * 0.25 / 60) = 0.2557.
    assert detectable_between(0.5, 60) == pytest.approx(0.2557, abs=1e-4)
    assert detectable_between(0.0, 60) == pytest.approx(1 / 60)
    assert detectable_between(0.5, 0) == 1.0


def test_compare_runs() -> None:
    first, second = [0.0, 0.0, 1.0, 0.5, 1.0], [1.0, 0.5, 1.0, 0.0, 1.0]
    found = compare_runs(first, second)
    assert (found.problems, found.better, found.worse) == (5, 2, 1)
    assert found.mean == pytest.approx(0.2)
    assert found.interval[0] < 0.2 < found.interval[1]
    assert found.p_value == 1.0
    assert found.detectable == detectable_difference([1.0, 0.5, 0.0, -0.5, 0.0])
    back = compare_runs(second, first)
    assert (back.mean, back.better) == (pytest.approx(-0.2), 1)


@pytest.mark.parametrize(("first", "second"), [([], []), ([1.0], [1.0, 0.0])])
def test_compare_runs_wants_the_same_problems(first: list[float], second: list[float]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        compare_runs(first, second)
