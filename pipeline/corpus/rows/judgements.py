"""Labels and solve rate of a row, by what its source is declared to be.

Called by schemas.py; reads and writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.base.params_corpus import SourceParams
from pipeline.corpus.rows.columns import places
from pipeline.corpus.rows.found_replies import Replies
from pipeline.corpus.rows.labels import (
    STRONG_LABELS,
    UNLABELLED,
    UNVERIFIABLE,
    WEAK_LABELS,
    is_rate,
    joined,
    labels_of,
    rate_of_labels,
    share_of,
)
from pipeline.corpus.rows.text import Value

_UNPROVEN_TYPES = ("no_answer_extracted", "converted_proof")
"""`problem_type`s whose answer was voted for or made up from a proof, not stated."""


_BESIDE = "beside the reply"


@dataclass
class Judgements:
    """What a row says about its replies."""

    verified: list[str]
    """One verdict a reply."""
    rate: float | None = None
    said: list[str] = field(default_factory=list)
    """`labels x` and `rate y`: the columns that were found."""


def judgements(
    row: dict[str, Value], replies: Replies, source: SourceParams, proven: bool
) -> Judgements:
    """Labels that count, and the solve rate, of a row.

    Args:
        source: a mapped column of labels is the only one. `solutions` are taken as they
            are; labels of `traces` count only where no answer is stated; those of
            `generations` always; `auto` heeds columns that can only be labels, and others
            where no answer is stated or they list one for each of several replies.
        proven: an answer is stated against which the replies can be checked.
    """
    count, kind = len(replies.found), source.kind
    if "verified" in source.columns:
        listed = {"verified": labels_of(row.get("verified"), count, strict=True) or []}
    else:
        listed = _label_columns(row, replies, strict=kind == "generations")
    strong = {name: found for name, found in listed.items() if _is_strong(name)}
    several = {name: found for name, found in listed.items() if count > 1 and _lists(row, name)}
    chosen = listed
    if kind == "solutions" or (kind == "traces" and proven):
        chosen = {}
    elif kind == "auto" and proven:
        chosen = strong | several
    verified = joined(chosen.values(), count)
    if kind in ("auto", "generations") and row.get("problem_type") in _UNPROVEN_TYPES:
        verified = [UNVERIFIABLE if one == UNLABELLED else one for one in verified]
    said = [f"labels {', '.join(chosen)}"] if chosen else []
    rate, name = _rate(row)
    if rate is None and count > 1:
        rate = next((one for one in map(rate_of_labels, listed.values()) if one is not None), None)
        name = next(iter(listed), "")
    return Judgements(verified, rate, said + ([f"rate {name}"] if rate is not None else []))


def _is_strong(name: str) -> bool:
    last = name.rpartition(".")[2]
    by_checker = last.startswith("correctness_") and last != "correctness_count"
    return last in STRONG_LABELS or by_checker or name == _BESIDE


def _lists(row: dict[str, Value], name: str) -> bool:
    return isinstance(row.get(name), list)


def _label_columns(row: dict[str, Value], replies: Replies, strict: bool) -> dict[str, list[str]]:
    """Column → a label for each reply, of all columns that hold labels."""
    count = len(replies.found)
    found: dict[str, list[str]] = {}
    if replies.own_labels is not None:
        found[_BESIDE] = replies.own_labels
    for prefix, place in places(row):
        for key, value in place.items():
            strong = _is_strong(key)
            if strong or key in WEAK_LABELS:
                labels = labels_of(value, count, strict and strong)
                if labels is not None:
                    found[prefix + key] = labels
    return found


def _rate(row: dict[str, Value]) -> tuple[float | None, str]:
    """(share, column) of the first solve rate that the row states."""
    for prefix, place in places(row):
        for key, value in place.items():
            if is_rate(key):
                share = share_of(value, key)
                if share is not None:
                    return share, prefix + key
    return None, ""
