"""Which clean traces are trained: whole rows, within the sequence and token budget.

Called by `python -m pipeline.select`; reads and writes nothing. Every row that is not
chosen has a reason, the first of these that holds:

over-long           more tokens than a sequence; a cut trace would teach not to finish.
over-cap            more tokens than `select.max_tokens`.
outside-solve-rate  the problem's known solve rate is outside `select.solve_rate`.
over-tier           `select.tier_shares` gives the tier nothing, or gave what it gives to
                    rows before this one, which the budget alone would have let in.
more-traces         the problem has `max_traces_per_problem` traces that rank before it.
over-source         the same as over-tier, for the weight of the source.
over-budget         the token budget was full before the row's turn came.

Turns come by a hash of seed and problem, the best trace of every problem before the
second of any, so that the budget cuts a random sample and no end of a file. Nothing
after the first row that does not fit is taken: filling the gap with whatever is
short would favour short rows. diversity.py orders the turns of the policy `diverse`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.base.errors import UserError
from pipeline.corpus.copies.keyed_hash import keyed_hash, rank_in_run, run_starts
from pipeline.corpus.selection.budget_shares import fill
from pipeline.corpus.selection.diversity import diverse_order
from pipeline.corpus.selection.entries import TIERS, Entries

Policy = Literal["shortest_correct", "first", "all", "diverse"]

REASONS = (
    *("chosen", "over-long", "over-cap", "outside-solve-rate"),
    *("over-tier", "more-traces", "over-source", "over-budget"),
)
CHOSEN, OVER_LONG, OVER_CAP, OUTSIDE, OVER_TIER, MORE_TRACES, OVER_SOURCE, OVER_BUDGET = range(8)

Places = NDArray[np.int32]


@dataclass(frozen=True)
class Limits:
    """The settings of one selection."""

    policy: Policy
    max_traces: int
    sequence_tokens: int
    token_budget: int | None
    """None takes all."""
    seed: int
    max_tokens: int | None = None
    solve_rate: tuple[float, float] | None = None
    """Least and most of a known solve rate; unknown ones pass."""
    tier_shares: dict[str, float] | None = None
    """Shares of the budget by tier, in any unit; a tier that is not named gets nothing."""

    def __post_init__(self) -> None:
        """Refuse values that contradict themselves.

        Raises:
            UserError: naming the key.
        """
        if self.solve_rate is not None and not 0 <= self.solve_rate[0] <= self.solve_rate[1] <= 1:
            raise UserError(
                f"select.solve_rate is {list(self.solve_rate)}",
                "Give the least and the most share of solved attempts, e.g. [0.1, 0.9].",
            )
        shares = self.tier_shares
        if shares is not None and (min(shares.values(), default=0) < 0 or not sum(shares.values())):
            raise UserError(
                f"select.tier_shares is {shares}",
                "Give shares of which none is negative and one is positive, or null.",
            )


def choose(entries: Entries, limits: Limits) -> NDArray[np.uint8]:
    """Choose whole rows up to the token budget.

    Returns:
        For every row the place of its reason in REASONS; 0 is chosen. Shape (rows,).
    """
    reasons = _unfit(entries, limits)
    places, rank = _ranked(entries, np.flatnonzero(reasons == CHOSEN).astype(np.int32), limits)
    if limits.policy != "all":
        reasons[places[rank >= limits.max_traces]] = MORE_TRACES
        places, rank = places[rank < limits.max_traces], rank[rank < limits.max_traces]
    if limits.policy == "diverse":
        turns = diverse_order(entries, places, rank, limits.seed)
    else:
        drawn = keyed_hash(entries.group[places], "turn", limits.seed)
        turns = places[np.lexsort((drawn, rank))]
    if limits.token_budget is None:
        return reasons
    filled = fill(entries, turns, limits.token_budget, limits.tier_shares)
    reasons[turns[~filled.chosen]] = OVER_BUDGET
    reasons[turns[filled.lost_to_tier]] = OVER_TIER
    reasons[turns[filled.lost_to_source]] = OVER_SOURCE
    return reasons


def _unfit(entries: Entries, limits: Limits) -> NDArray[np.uint8]:
    """The reasons that a row has by itself."""
    reasons = np.zeros(len(entries), dtype=np.uint8)
    if limits.tier_shares is not None:
        unwanted = [not limits.tier_shares.get(tier) for tier in TIERS]
        reasons[np.asarray(unwanted)[entries.tier]] = OVER_TIER
    if limits.solve_rate is not None:
        least, most = limits.solve_rate
        reasons[(entries.solve_rate < least) | (entries.solve_rate > most)] = OUTSIDE
    if limits.max_tokens is not None:
        reasons[entries.tokens > limits.max_tokens] = OVER_CAP
    reasons[entries.tokens > limits.sequence_tokens] = OVER_LONG
    return reasons


def _ranked(entries: Entries, places: Places, limits: Limits) -> tuple[Places, NDArray[np.int32]]:
    """The places, problem by problem, and each one's rank among the traces of its problem."""
    group = entries.group[places]
    if limits.policy in ("shortest_correct", "diverse"):
        order = np.lexsort((entries.tokens[places], group))
    else:
        order = np.argsort(group, kind="stable")
    return places[order], rank_in_run(run_starts(group[order]))
