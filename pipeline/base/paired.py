"""Two runs on the same problems: which is better, how sure is that, what could be seen. Pure.

Called by the summary and measurement rooms; reads and writes nothing. Both runs are given
as one figure a problem, in the same order: the share of right replies (mean@k), or 0 and 1
(best of k, majority). Problems are the sampling unit throughout; replies to one problem
are not independent.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

POWER_FACTOR = 1.959963984540054 + 0.8416212335729143
"""Normal quantiles of a two-sided test at 5 % and of a power of 80 %, summed."""

RESAMPLES = 2000
"""Bootstrap draws; the bounds of a 95 % interval then rest on 50 draws beyond each."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Second run minus first, in shares of 1."""

    problems: int
    mean: float
    interval: tuple[float, float]
    """Paired bootstrap over problems, 95 %."""
    better: int
    """Problems on which the second run is better."""
    worse: int
    p_value: float
    """McNemar's exact test, see `mcnemar_exact`."""
    detectable: float
    """See `detectable_difference`."""


def compare_runs(first: Sequence[float], second: Sequence[float], seed: int = 0) -> Difference:
    """Compare two runs problem by problem.

    Raises:
        ValueError: no problem, or runs of different lengths.
    """
    if len(first) != len(second) or not first:
        raise ValueError(f"{len(first)} and {len(second)} problems: want as many, at least one")
    gaps = [b - a for a, b in zip(first, second, strict=True)]
    better, worse = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    return Difference(
        problems=len(gaps),
        mean=math.fsum(gaps) / len(gaps),
        interval=bootstrap_interval(gaps, seed),
        better=better,
        worse=worse,
        p_value=mcnemar_exact(better, worse),
        detectable=detectable_difference(gaps),
    )


def mcnemar_exact(better: int, worse: int) -> float:
    """Two-sided exact McNemar test: the binomial chance of so uneven a split or more.

    McNemar 1947, with the exact binomial tail instead of the chi-square. For figures
    between 0 and 1 it is the sign test, of which it is the special case.
    """
    discordant = better + worse
    tail = sum(math.comb(discordant, i) for i in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / (1 << discordant))


def bootstrap_interval(
    values: Sequence[float], seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """95 % percentile interval of the mean over problems, drawn with replacement.

    Efron & Tibshirani 1993, chapter 13. The same seed gives the same bounds.

    Raises:
        ValueError: no value.
    """
    if not values:
        raise ValueError("no problem to draw from")
    draws = random.Random(seed)
    size = len(values)
    means = sorted(math.fsum(draws.choices(values, k=size)) / size for _ in range(resamples))
    tail = round(0.025 * resamples)
    return means[tail], means[-1 - tail]


def detectable_difference(gaps: Sequence[float]) -> float:
    """Smallest true mean difference that a paired test at 5 % finds 4 times in 5.

    (z_0.975 + z_0.8) · s / √n, with s the standard deviation of the differences a problem;
    of a single problem, or of runs that never differ, the bound of one flipped problem, 1/n.
    """
    size = len(gaps)
    if size == 0:
        return 1.0
    mean = math.fsum(gaps) / size
    spread = math.fsum((gap - mean) ** 2 for gap in gaps) / max(1, size - 1)
    return min(1.0, max(1 / size, POWER_FACTOR * math.sqrt(spread / size)))


def detectable_between(rate: float, problems: int) -> float:
    """The same for two runs that are not paired, both near `rate` over `problems` each.

    (z_0.975 + z_0.8) · √(2 · rate · (1 − rate) / n), at least one problem's worth.
    """
    if problems == 0:
        return 1.0
    spread = math.sqrt(2 * rate * (1 - rate) / problems)
    return min(1.0, max(1 / problems, POWER_FACTOR * spread))
