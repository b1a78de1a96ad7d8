"""Replies become graded samples, samples become scores.json. Torch-free.

A problem counts only when all its replies are finished, so that running out of
time removes problems instead of making them look harder. A problem whose gold
cannot be read is left out and counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from pipeline.base.grading import THINK_OPEN, grade, unbox
from pipeline.base.records import Problem, Sample
from pipeline.measurement.statistics import mean_pass_at_k, wilson_interval

NO_BOX = frozenset({"no-box", "unclosed-box", "empty-box", "truncated"})
"""Reasons of replies that hold no answer to compare, whatever the cause."""

DIGITS = 6
"""Decimals of the rates that are written."""


def make_sample(
    problem: Problem,
    sample: int,
    variant: str,
    prompt: str,
    reply: str,
    tokens: int,
    truncated: bool,
) -> Sample:
    """Grade one reply.

    Some templates open the thinking block in the prompt: then the reply must
    close it before it can hold an answer.
    """
    opened = THINK_OPEN if prompt.rstrip().endswith(THINK_OPEN) else ""
    verdict = grade(opened + reply, problem.gold, truncated=truncated)
    return Sample(
        id=problem.id,
        sample=sample,
        variant=variant,
        prompt=prompt,
        reply=reply,
        tokens=tokens,
        truncated=truncated,
        gold=unbox(problem.gold),
        answer=verdict.answer,
        correct=verdict.correct,
        reason=verdict.reason,
    )


def complete_problems(samples: Sequence[Sample], k: int) -> dict[str, list[Sample]]:
    """Samples of the problems that have all `k` of them, by problem id."""
    grouped: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        grouped[sample.id].append(sample)
    return {name: group for name, group in grouped.items() if len(group) == k}


def summarise(samples: Sequence[Sample], k: int) -> dict[str, Any]:
    """The rates of scores.json; a rate over nothing is None.

    Args:
        samples: all finished ones of one prompt variant; problems with fewer than `k`
            do not count.
        k: replies a problem.
    """
    groups = complete_problems(samples, k)
    unreadable = [name for name in groups if groups[name][0].reason == "unreadable-gold"]
    groups = {name: group for name, group in groups.items() if name not in set(unreadable)}
    counted = [sample for group in groups.values() for sample in group]
    counts = [(k, sum(sample.correct for sample in group)) for group in groups.values()]
    first, best = mean_pass_at_k(counts, 1), mean_pass_at_k(counts, k)
    return {
        "problems": len(groups),
        "samples_per_problem": k,
        "pass_at_1": _rounded(first),
        "best_of_k": _rounded(best),
        "k": k,
        "pass_at_1_interval": _rounded_pair(wilson_interval(first, len(groups))),
        "best_of_k_interval": _rounded_pair(wilson_interval(best, len(groups))),
        "truncation_rate": _share(counted, lambda sample: sample.truncated),
        "no_box_rate": _share(counted, lambda sample: sample.reason in NO_BOX),
        "mean_tokens": _mean([sample.tokens for sample in counted]),
        "reasons": dict(sorted(Counter(sample.reason for sample in counted).items())),
        "unreadable_golds": len(unreadable),
    }


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, DIGITS)


def _rounded_pair(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else [round(bound, DIGITS) for bound in interval]


def _share(samples: Sequence[Sample], holds: Callable[[Sample], bool]) -> float | None:
    return _rounded(sum(map(holds, samples)) / len(samples)) if samples else None


def _mean(values: Sequence[int]) -> float | None:
    return round(sum(values) / len(values), 2) if values else None
