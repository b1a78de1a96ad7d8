"""The token budget split over tiers and sources, and the rows that fill each part.

Called by choice.py; reads and writes nothing. `select.tier_shares` splits the
budget over tiers; within each tier the weights of the sources split it again, if they
differ. What a part cannot supply goes to its fellows by their shares (quotas.share_out).
Each part is filled in the order of turns up to its first row that does not fit; what
that leaves over buys one more row of the part with the most unused tokens, then of the
next, until one does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.corpus.copies.keyed_hash import run_starts
from pipeline.corpus.selection.entries import TIERS, Entries
from pipeline.corpus.selection.quotas import share_out

Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Filled:
    """What became of every turn; all of shape (turns,)."""

    chosen: Flags
    lost_to_tier: Flags
    """The budget alone would have let the row in; the share of its tier was used up."""
    lost_to_source: Flags
    """The same for the weight of its source."""


def fill(
    entries: Entries, turns: NDArray[np.int32], budget: int, tier_shares: Mapping[str, float] | None
) -> Filled:
    """Take rows in the order of `turns` while budget and quotas allow."""
    tokens = entries.tokens[turns].astype(np.int64)
    tier = _tiers(entries, turns, tier_shares)
    numbers, weights, part = _weighted(entries)
    cells = tier * len(numbers) + part[entries.source[turns]]
    supply = _totals(tokens, cells, len(TIERS) * len(numbers)).reshape(len(TIERS), len(numbers))
    by_tier = _tier_quotas(budget, tier_shares, supply)
    quotas = np.asarray(
        [share_out(most, weights, row.tolist()) for most, row in zip(by_tier, supply, strict=True)]
    ).reshape(-1)
    chosen = running_total(tokens, cells) <= quotas[cells]
    _spend_rest(chosen, tokens, cells, quotas, budget)
    lost = ~chosen & (np.cumsum(tokens) <= budget)
    beyond_tier = running_total(tokens, tier) > np.asarray(by_tier)[tier]
    return Filled(chosen, lost & beyond_tier, lost & ~beyond_tier)


def _tiers(
    entries: Entries, turns: NDArray[np.int32], shares: Mapping[str, float] | None
) -> NDArray[np.intp]:
    """Tier of every turn; all of one tier if shares are no matter."""
    if shares is None:
        return np.zeros(len(turns), dtype=np.intp)
    return entries.tier[turns].astype(np.intp)


def _weighted(entries: Entries) -> tuple[list[int], list[float], NDArray[np.intp]]:
    """(entries of data.sources, their weights, file → place in both); one entry if all are equal.

    Equal weights ask for nothing: the sources are then taken as they come.
    """
    weights = entries.weights
    if len(set(weights.values())) < 2:
        return [0], [1.0], np.zeros(len(entries.sources), dtype=np.intp)
    numbers = sorted(weights)
    part = np.asarray([numbers.index(one) for one in entries.entry], dtype=np.intp)
    return numbers, [weights[one] for one in numbers], part


def _tier_quotas(budget: int, shares: Mapping[str, float] | None, supply: Whole) -> list[int]:
    by_tier = [int(one) for one in supply.sum(axis=1)]
    wanted = [1.0 if shares is None else shares.get(tier, 0.0) for tier in TIERS]
    return share_out(budget, wanted, by_tier)


def _totals(tokens: Whole, cells: NDArray[np.intp], count: int) -> Whole:
    return np.bincount(cells, weights=tokens, minlength=count).astype(np.int64)


def running_total(tokens: Whole, cells: NDArray[np.intp]) -> Whole:
    """Tokens of each cell up to and including every row, in the rows' order; shape (rows,)."""
    order = np.argsort(cells, kind="stable")
    sums = np.cumsum(tokens[order])
    starts = run_starts(cells[order])
    before = np.where(starts, sums - tokens[order], 0)
    totals = np.empty_like(sums)
    totals[order] = sums - np.maximum.accumulate(before)
    return totals


def _spend_rest(
    chosen: Flags, tokens: Whole, cells: NDArray[np.intp], quotas: Whole, budget: int
) -> None:
    """Mark as chosen what the parts' unused tokens buy together; at most one row a part."""
    waiting = np.flatnonzero(~chosen)
    parts, first = np.unique(cells[waiting], return_index=True)
    unused = quotas - _totals(tokens[chosen], cells[chosen], len(quotas))
    left = budget - int(tokens[chosen].sum())
    for place in np.lexsort((parts, -unused[parts])):
        turn = waiting[first[place]]
        if tokens[turn] > left:
            break
        chosen[turn] = True
        left -= int(tokens[turn])
