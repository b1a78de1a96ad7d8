"""Rates over problems with k replies each, and how sure they are. Pure.

pass@k is the unbiased estimator of Chen et al. 2021 (arXiv 2107.03374). The
interval is Wilson's: it stays inside [0, 1] and holds for few problems and for
rates near 0 or 1. Its n is the number of problems, not of replies: replies to
one problem are not independent. For pass@1 over several replies this is wider
than needed, never too narrow. Two runs are compared by pipeline/base/paired.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""


def pass_at_k(replies: int, correct: int, k: int) -> float:
    """Chance that k of `replies`, drawn without replacement, hold a correct one.

    Raises:
        ValueError: unless 0 <= correct <= replies and 1 <= k <= replies.
    """
    if not (0 <= correct <= replies and 1 <= k <= replies):
        raise ValueError(f"pass_at_k({replies=}, {correct=}, {k=}): out of range")
    return 1.0 - math.comb(replies - correct, k) / math.comb(replies, k)


def best_of_k(verdicts: Sequence[bool]) -> float:
    """1 if any of a problem's replies is right, else 0."""
    return float(any(verdicts))


def mean_at_k(verdicts: Sequence[bool]) -> float:
    """Share of a problem's replies that are right.

    Raises:
        ValueError: no reply.
    """
    if not verdicts:
        raise ValueError("mean@k of no reply")
    return sum(verdicts) / len(verdicts)


def majority_at_k(answers: Sequence[tuple[str, bool]]) -> float:
    """Chance that a problem's commonest answer is right, when a tie is broken by lot.

    Args:
        answers: (normalised answer, verdict) of each reply; an empty answer (no box) has
            no vote. With no votes at all the problem is wrong. Answers that a grader calls
            right are one, however they are written.
    """
    votes = Counter("right" if right else f"={answer}" for answer, right in answers if answer)
    if not votes:
        return 0.0
    most = max(votes.values())
    tied = [answer for answer, count in votes.items() if count == most]
    return ("right" in tied) / len(tied)


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> float | None:
    """Mean of pass@k over problems given as (replies, correct); None without any."""
    if not counts:
        return None
    return sum(pass_at_k(replies, correct, k) for replies, correct in counts) / len(counts)


def wilson_interval(rate: float | None, problems: int) -> tuple[float, float] | None:
    """Wilson's 95 % interval of a rate over `problems`; None when there is no rate.

    The rate may be a mean of rates per problem, so it need not be a multiple of
    1/problems.
    """
    if rate is None or problems == 0:
        return None
    square = Z_95**2 / problems
    centre = (rate + square / 2) / (1 + square)
    spread = math.sqrt(rate * (1 - rate) * square + square**2 / 4) / (1 + square)
    return max(0.0, centre - spread), min(1.0, centre + spread)
