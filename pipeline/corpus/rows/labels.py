"""What a row says about its own replies: verified or not, and how often a problem is solved.

Called by schemas.py; reads and writes nothing. Spellings differ between data sets; what
is not known for a label or a rate is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache

from pipeline.corpus.rows.text import Value

CORRECT, WRONG, UNVERIFIABLE, UNLABELLED = "correct", "wrong", "unverifiable", "unlabelled"

STRONG_LABELS = (
    *("verified", "is_correct", "correctness", "correctness_math_verify", "correctness_llama"),
    *("math_verify", "is_verified", "verification", "verification_label", "verification_result"),
    *("symbolic_correct", "judge_correct", "verdict", "judgement", "judgment"),
)
"""Columns that can only mean: this reply was checked."""
WEAK_LABELS = ("correct", "label", "labels", "score", "scores", "reward", "rewards")
"""Columns that may mean something else: a topic, a preference, a grade."""

_SPELLINGS = {
    **dict.fromkeys("correct true right yes pass passed verified valid 1 1.0".split(), CORRECT),
    **dict.fromkeys(
        "wrong incorrect false no fail failed invalid not_correct 0 0.0".split(), WRONG
    ),
    **dict.fromkeys(
        "unverifiable unverified unknown undecided uncertain unsure n/a na none null error "
        "timeout skipped not_verified not_verifiable inconclusive".split(),
        UNVERIFIABLE,
    ),
}
_RATE = re.compile(
    r"(?:.+_)?(?:solve|pass|success)_?rate(?:_.+)?|(?:.+_)?accuracy(?:_.+)?|pass@1|avg@\d+|"
    r"(?:solve|pass)_(?:percent|pct|percentage)"
)
_FRACTION = re.compile(r"\s*(\d+)\s*/\s*(\d+)\s*")
EASY, MEDIUM = 0.65, 0.40
"""Least share of solved attempts of an easy and of a medium problem."""

MIN_ATTEMPTS = 4
"""Labels of so many replies to one problem give a solve rate."""


def label_of(value: Value) -> str | None:
    """correct, wrong or unverifiable; None for what is no label."""
    if value is None:
        return UNVERIFIABLE
    if isinstance(value, str):
        return _SPELLINGS.get(value.strip().lower().replace(" ", "_"))
    if isinstance(value, (bool, int, float, Decimal)):
        return CORRECT if value == 1 else WRONG if value == 0 else None
    return None


def labels_of(value: Value, replies: int, strict: bool) -> list[str] | None:
    """One label for each reply; None if the column holds no labels for them.

    Args:
        value: one label for all, or a list parallel to the replies.
        strict: the column is known to hold labels, so that an unknown spelling, or a
            list of another length, leaves a reply unverifiable.
    """
    given = value if isinstance(value, list) else [value] * replies
    found = [label_of(one) for one in given]
    if not strict and (len(found) != replies or None in found):
        return None
    found += [None] * (replies - len(found))
    return [one or UNVERIFIABLE for one in found[:replies]]


def joined(columns: Iterable[list[str]], replies: int) -> list[str]:
    """The verdict of several checkers: one that says correct is enough, then wrong counts."""
    by_reply = list(zip(*columns, strict=True)) or [()] * replies
    order = (CORRECT, WRONG, UNVERIFIABLE)
    return [next((one for one in order if one in said), UNLABELLED) for said in by_reply]


@lru_cache(maxsize=4096)
def is_rate(key: str) -> bool:
    """Whether a column's name says that it holds a solve rate."""
    return _RATE.fullmatch(key) is not None


def share_of(value: Value, key: str) -> float | None:
    """A solve rate as a share from 0 to 1; None if the value is none.

    Numbers up to 1 are shares, up to 100 per cents, as all are whose column or text says
    so; a list of scores from 0 to 1 gives its mean.
    """
    if isinstance(value, list):
        scores = [float(one) if isinstance(one, bool) else share_of(one, key) for one in value]
        known = [one for one in scores if one is not None]
        return sum(known) / len(known) if known and len(known) == len(scores) else None
    per_cent = "percent" in key or "pct" in key
    if isinstance(value, str):
        fraction = _FRACTION.fullmatch(value)
        if fraction:
            part, whole = int(fraction[1]), int(fraction[2])
            return part / whole if 0 < whole >= part else None
        per_cent = per_cent or value.strip().endswith("%")
        try:
            value = float(value.strip().removesuffix("%"))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number) or not 0 <= number <= 100:
        return None
    return number / 100 if per_cent or number > 1 else number


def tier_of(rate: float | None) -> str:
    """easy, medium, hard, or unknown where no rate is."""
    if rate is None:
        return "unknown"
    return "easy" if rate >= EASY else "medium" if rate >= MEDIUM else "hard"


def rate_of_labels(labels: list[str]) -> float | None:
    """Share of correct among many labelled replies to one problem."""
    known = [one for one in labels if one in (CORRECT, WRONG)]
    return known.count(CORRECT) / len(known) if len(known) >= MIN_ATTEMPTS else None
