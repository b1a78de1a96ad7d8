"""work/select/report.json: what the corpus looks like before and after the selection.

Called by `python -m pipeline.select`; reads and writes nothing. Every table has a row
for each class with the rows and tokens that came in (`read`, `tokens_read`) and those
that were chosen (`kept`, `tokens`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.corpus.selection.choice import CHOSEN, REASONS, Limits
from pipeline.corpus.selection.entries import TIERS, Entries
from pipeline.corpus.selection.quotas import largest_remainder
from pipeline.corpus.selection.topics import BUCKETS, SUBJECTS, TOPICS

SHORTEST_BOUND = 64
"""Upper bound in tokens of the first bar of the length histogram; the others double."""
RATE_BANDS = 10

Class = NDArray[np.integer[Any]]


def describe(
    entries: Entries, reasons: NDArray[np.uint8], limits: Limits, answer_limit: int
) -> dict[str, Any]:
    """The whole report.

    Args:
        reasons: of every row, as `selection.choose` returns them.
        answer_limit: tokens that a reply may have in the evaluation.
    """
    chosen = reasons == CHOSEN
    kept_tokens = entries.tokens[chosen]
    unknown = np.isnan(entries.solve_rate)
    return {
        "read": len(entries),
        "kept": int(chosen.sum()),
        "dropped": _named(np.bincount(reasons, minlength=len(REASONS))),
        "problems_read": len(np.unique(entries.group)),
        "problems": len(np.unique(entries.group[chosen])),
        "tokens": int(kept_tokens.sum()),
        "tokens_read": int(entries.tokens.sum()),
        "longest": int(kept_tokens.max(initial=0)),
        "policy": limits.policy,
        "max_traces_per_problem": limits.max_traces,
        "sequence_tokens": limits.sequence_tokens,
        "max_tokens": limits.max_tokens,
        "solve_rate": limits.solve_rate,
        "token_budget": limits.token_budget,
        "answer_limit": answer_limit,
        "kept_beyond_answer_limit": int((kept_tokens > answer_limit).sum()),
        "kept_of_unknown_solve_rate": int((chosen & unknown).sum()),
        "length_histogram": _histogram(entries, chosen),
        "tiers": _tiers(entries, chosen, limits),
        "solve_rates": _rates(entries, chosen),
        "topics": _topics(entries, chosen),
        "subjects": _table(
            "subject", SUBJECTS, (entries.topic // BUCKETS).astype(np.uint8), entries, chosen
        ),
        "sources": _sources(entries, reasons),
        "weights": _weights(entries, chosen, limits),
    }


def _named(counts: NDArray[np.intp]) -> dict[str, int]:
    """Reason → rows, without the chosen ones and the reasons that dropped none."""
    named = {name: int(count) for name, count in zip(REASONS, counts, strict=True) if count}
    named.pop(REASONS[CHOSEN], None)
    return dict(sorted(named.items()))


def _table(
    title: str, names: Sequence[Any], classes: Class, entries: Entries, chosen: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """One entry for every class that has rows, in the order of `names`."""
    size = len(names)
    columns = {
        "read": np.bincount(classes, minlength=size),
        "kept": np.bincount(classes[chosen], minlength=size),
        "tokens_read": np.bincount(classes, entries.tokens, size),
        "tokens": np.bincount(classes[chosen], entries.tokens[chosen], size),
    }
    return [
        {title: name, **{key: int(column[place]) for key, column in columns.items()}}
        for place, name in enumerate(names)
        if columns["read"][place]
    ]


def _histogram(entries: Entries, chosen: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Rows and tokens by length, empty bars included; `up_to` is the longest of a bar."""
    bounds = [SHORTEST_BOUND]
    while bounds[-1] < entries.tokens.max(initial=0):
        bounds.append(2 * bounds[-1])
    bars = np.searchsorted(bounds, entries.tokens).astype(np.uint8)
    found = {bar["up_to"]: bar for bar in _table("up_to", bounds, bars, entries, chosen)}
    empty = {"read": 0, "kept": 0, "tokens_read": 0, "tokens": 0}
    return [found.get(bound, {"up_to": bound, **empty}) for bound in bounds]


def _tiers(entries: Entries, chosen: NDArray[np.bool_], limits: Limits) -> list[dict[str, Any]]:
    """With `wanted`, the tokens that tier_shares ask for, where they and a budget are given."""
    tiers = _table("tier", TIERS, entries.tier, entries, chosen)
    if limits.tier_shares is not None and limits.token_budget is not None:
        shares = [limits.tier_shares.get(tier, 0.0) for tier in TIERS]
        wanted = dict(zip(TIERS, largest_remainder(limits.token_budget, shares), strict=True))
        tiers = [{**one, "wanted": wanted[one["tier"]]} for one in tiers]
    return tiers


def _rates(entries: Entries, chosen: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """By tenths of the solve rate, the upper bound belonging to the band above it."""
    names = [f"{band / RATE_BANDS:.1f}-{(band + 1) / RATE_BANDS:.1f}" for band in range(RATE_BANDS)]
    rates = entries.solve_rate
    bands = np.where(np.isnan(rates), RATE_BANDS, np.minimum(rates * RATE_BANDS, RATE_BANDS - 1))
    return _table("solve_rate", [*names, "unknown"], bands.astype(np.uint8), entries, chosen)


def _topics(entries: Entries, chosen: NDArray[np.bool_]) -> dict[str, Any]:
    """Topics met, and the share of the problems that falls to the commonest tenth of topics."""
    sides: dict[str, Any] = {}
    for name, rows in (("read", np.ones_like(chosen)), ("kept", chosen)):
        sizes = np.sort(np.bincount(entries.topic[rows], minlength=TOPICS))[::-1]
        top = int(sizes[: TOPICS // 10].sum())
        sides[name] = int((sizes > 0).sum())
        sides[f"{name}_share_of_top_tenth"] = round(top / max(1, int(sizes.sum())), 4)
    return sides


def _sources(entries: Entries, reasons: NDArray[np.uint8]) -> list[dict[str, Any]]:
    """By file in order of name, with its reasons."""
    files = _table("source", entries.sources, entries.source, entries, reasons == CHOSEN)
    width = len(REASONS)
    cells = entries.source.astype(np.int64) * width + reasons
    counts = np.bincount(cells, minlength=width * len(entries.sources)).reshape(-1, width)
    dropped = {name: _named(row) for name, row in zip(entries.sources, counts, strict=True)}
    return sorted(
        ({**one, "dropped": dropped[one["source"]]} for one in files),
        key=lambda one: str(one["source"]),
    )


def _weights(entries: Entries, chosen: NDArray[np.bool_], limits: Limits) -> list[dict[str, Any]]:
    """By entry of `data.sources`, with the tokens that its weight asks for; empty if none count."""
    if limits.token_budget is None or len(set(entries.weights.values())) < 2:
        return []
    numbers = sorted(entries.weights)
    weights = [entries.weights[one] for one in numbers]
    part = np.asarray([numbers.index(one) for one in entries.entry], dtype=np.int32)
    table = _table("entry", numbers, part[entries.source], entries, chosen)
    wanted = largest_remainder(limits.token_budget, weights)
    return [
        {
            **one,
            "weight": entries.weights[one["entry"]],
            "wanted": wanted[numbers.index(one["entry"])],
        }
        for one in table
    ]


def summary_lines(report: dict[str, Any]) -> list[str]:
    """Before and after in a few lines for the terminal."""
    lines = [
        f"tokens {report['tokens_read']:,} -> {report['tokens']:,}, problems "
        f"{report['problems_read']:,} -> {report['problems']:,}, topics "
        f"{report['topics']['read']} -> {report['topics']['kept']} of {TOPICS}"
    ]
    for title, table in (("tier", "tiers"), ("subject", "subjects"), ("source", "sources")):
        if len(report[table]) > 1:
            most = sorted(report[table], key=lambda one: -one["tokens_read"])[:6]
            parts = ", ".join(f"{one[title]} {_change(one, report)}" for one in most)
            lines.append(f"{table}, share of tokens: {parts}")
    if report["kept_beyond_answer_limit"]:
        lines.append(
            f"{report['kept_beyond_answer_limit']:,} of {report['kept']:,} rows are longer than a "
            f"reply may be in the evaluation ({report['answer_limit']:,} tokens); "
            "`select.max_tokens` drops them"
        )
    return lines


def _change(one: dict[str, Any], report: dict[str, Any]) -> str:
    before = one["tokens_read"] / max(1, report["tokens_read"])
    after = one["tokens"] / max(1, report["tokens"])
    return f"{before:.0%} -> {after:.0%}"
