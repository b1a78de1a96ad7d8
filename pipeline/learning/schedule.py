"""Learning rate and stage as pure functions of (step, journal). No torch.

The journal lists re-plans: from step s on, the run has T steps in all. Progress
runs from 0 to 1 and is continuous across re-plans, so that the rate never jumps
and reaches zero with the last step, whatever the clock did in between; the stages
of the curriculum share it in the same way. A resumed run reads the same journal and
gets the same rates and borders.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.base import curriculum
from pipeline.base.errors import UserError


@dataclass(frozen=True, slots=True)
class Replan:
    """From `step` on, `total` is the number of steps of the whole run."""

    step: int
    total: int
    why: str


def to_json(journal: Sequence[Replan]) -> list[dict[str, Any]]:
    """The journal as JSON objects."""
    return [{"step": e.step, "total": e.total, "why": e.why} for e in journal]


def from_json(rows: Sequence[dict[str, Any]]) -> list[Replan]:
    """The journal back from `to_json`."""
    return [Replan(int(r["step"]), int(r["total"]), str(r["why"])) for r in rows]


def total_steps(journal: Sequence[Replan]) -> int:
    """Steps of the run as last planned."""
    if not journal:
        raise UserError("the journal of the run is empty", "Delete the run's folder in runs/.")
    return journal[-1].total


def progress(step: float, journal: Sequence[Replan]) -> float:
    """Share of the schedule that lies behind `step`, in [0, 1], continuous.

    Within a segment that starts at step s with progress p and total T it is
    p + (1 - p) * (step - s) / (T - s).
    """
    start, reached, total = 0.0, 0.0, float(journal[0].total)
    for entry in journal[1:]:
        if entry.step > step:
            break
        reached += (1 - reached) * (entry.step - start) / max(total - start, 1.0)
        start, total = float(entry.step), float(entry.total)
    value = reached + (1 - reached) * (step - start) / max(total - start, 1.0)
    return min(max(value, 0.0), 1.0)


def stage_starts(journal: Sequence[Replan], shares: Sequence[float]) -> list[int]:
    """First step of every stage: where progress reaches the shares of the stages before it.

    Progress at a step depends on no later entry of the journal, so a re-plan moves
    only borders that lie ahead of it.
    """
    return curriculum.stage_starts(
        shares, total_steps(journal), lambda step: progress(step, journal)
    )


def rate_factor(share: float, warmup: float, decay: Literal["linear", "cosine", "none"]) -> float:
    """Multiple of the peak rate at progress `share`: up over `warmup`, then to zero.

    With `decay` none it stays at the peak, as schedule-free optimizers want it.
    """
    if share < warmup:
        return share / warmup
    if decay == "none":
        return 1.0
    fall = (share - warmup) / (1 - warmup)
    return 1 - fall if decay == "linear" else 0.5 * (1 + math.cos(math.pi * fall))


def learning_rate(
    step: int,
    journal: Sequence[Replan],
    *,
    peak: float,
    warmup: float,
    decay: Literal["linear", "cosine", "none"],
) -> float:
    """Rate of the update that step `step` (0-based) makes.

    It is taken at the middle of the step: the first update is not wasted on a
    rate of zero, and the last one is as small as the decay's end.
    """
    return peak * rate_factor(progress(step + 0.5, journal), warmup, decay)


def replanned_total(
    *, step: int, total: int, seconds_a_step: float, seconds_left: float, most_steps: int
) -> int:
    """Steps of the whole run that the clock allows; never fewer than one more.

    Args:
        step: steps done.
        total: steps as planned now.
        seconds_a_step: measured on this machine.
        seconds_left: until training must end.
        most_steps: upper limit set by the recipe; `total` when steps are fixed.

    Returns:
        `total` when the plan fits 99 % of the time left and leaves little unused, else
        the steps that fit 97 % of it: the margin between keeps jitter out of the journal.
    """
    fitting = step + max(1, math.floor(0.97 * seconds_left / max(seconds_a_step, 1e-6)))
    if (total - step) * seconds_a_step > 0.99 * seconds_left:
        return min(total, fitting)
    wanted = min(fitting, most_steps)
    # Growth is worth a re-plan only when it is real: small ones would churn the journal.
    return wanted if wanted - step > 1.05 * (total - step) else total
