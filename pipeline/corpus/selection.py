"""Which clean traces are trained: whole rows, within the sequence and token budget.

Called by `python -m pipeline.select`; reads and writes nothing. Every row that is not
chosen has a reason:

over-long    more tokens than a sequence; a cut trace would teach not to finish.
more-traces  the problem already has `max_traces_per_problem` that rank before it.
over-budget  the token budget was full before the row's turn came.

Turns come by a hash of seed and problem, the best trace of every problem before the
second of any, so that the budget cuts a random sample and no end of a file. Nothing
after the first row that does not fit is taken: filling the gap with whatever is
short would favour short rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.base.artifacts import sha256_text
from pipeline.base.records import Trace

Policy = Literal["shortest_correct", "first", "all"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What selection needs to know of a trace."""

    place: int
    """0-based number of the row in its file."""
    id: str
    tokens: int
    source: str


@dataclass(frozen=True)
class Limits:
    """The settings of one selection."""

    policy: Policy
    max_traces: int
    sequence_tokens: int
    token_budget: int | None
    """None takes all."""
    seed: int


@dataclass(frozen=True)
class Selection:
    """The chosen places and the reason of each other one."""

    chosen: set[int]
    reasons: dict[int, str]


def entries_of(traces: Iterable[Trace]) -> list[Entry]:
    """The traces without their texts, in order."""
    return [
        Entry(place, trace.id, trace.tokens, trace.source) for place, trace in enumerate(traces)
    ]


def _ranked(entries: list[Entry], policy: Policy) -> list[tuple[int, Entry]]:
    """(rank among the traces of its problem, entry)."""
    by_problem: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_problem[entry.id].append(entry)
    ranked = []
    for group in by_problem.values():
        if policy == "shortest_correct":
            group.sort(key=lambda one: (one.tokens, one.place))
        ranked += list(enumerate(group))
    return ranked


def choose(entries: list[Entry], limits: Limits) -> Selection:
    """Choose whole rows up to the token budget."""
    reasons = {one.place: "over-long" for one in entries if one.tokens > limits.sequence_tokens}
    ranked = _ranked([one for one in entries if one.place not in reasons], limits.policy)
    if limits.policy != "all":
        reasons |= {one.place: "more-traces" for rank, one in ranked if rank >= limits.max_traces}
    turns = [(rank, one) for rank, one in ranked if one.place not in reasons]
    keys = {key: sha256_text(f"{limits.seed}:{key}") for key in {one.id for _, one in turns}}
    turns.sort(key=lambda turn: (turn[0], keys[turn[1].id], turn[1].place))
    chosen: set[int] = set()
    used = 0
    full = False
    for _, one in turns:
        full = full or (limits.token_budget is not None and used + one.tokens > limits.token_budget)
        if full:
            reasons[one.place] = "over-budget"
        else:
            chosen.add(one.place)
            used += one.tokens
    return Selection(chosen, reasons)


def _histogram(entries: list[Entry], chosen: set[int]) -> list[dict[str, int]]:
    """Rows by length, bounds doubling from 64 tokens."""
    bins: list[dict[str, int]] = []
    bound = 64
    longest = max((one.tokens for one in entries), default=0)
    while not bins or bins[-1]["up_to"] < longest:
        lowest = bins[-1]["up_to"] if bins else 0
        inside = [one for one in entries if lowest < one.tokens <= bound]
        taken = sum(one.place in chosen for one in inside)
        bins.append({"up_to": bound, "read": len(inside), "kept": taken})
        bound *= 2
    return bins


def describe(entries: list[Entry], selection: Selection, limits: Limits) -> dict[str, Any]:
    """work/select/report.json."""
    chosen = [one for one in entries if one.place in selection.chosen]
    sources = sorted({one.source for one in entries})
    return {
        "read": len(entries),
        "kept": len(chosen),
        "dropped": dict(sorted(Counter(selection.reasons.values()).items())),
        "problems": len({one.id for one in chosen}),
        "tokens": sum(one.tokens for one in chosen),
        "tokens_read": sum(one.tokens for one in entries),
        "longest": max((one.tokens for one in chosen), default=0),
        "policy": limits.policy,
        "max_traces_per_problem": limits.max_traces,
        "sequence_tokens": limits.sequence_tokens,
        "token_budget": limits.token_budget,
        "length_histogram": _histogram(entries, selection.chosen),
        "sources": [
            {
                "source": source,
                "read": sum(one.source == source for one in entries),
                "kept": sum(one.source == source for one in chosen),
                "tokens": sum(one.tokens for one in chosen if one.source == source),
            }
            for source in sources
        ],
    }
