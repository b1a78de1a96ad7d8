"""Shares of the time budget, and how many steps they allow.

Everything here comes from params and predicted rates, never from the running
clock: the same inputs must give the same plan. The trainer itself watches the
clock and shortens the run when the prediction was too hopeful.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import ModelShape
from pipeline.base.params import Params
from pipeline.base.progress import duration

STAGES_SECONDS = 60.0
STAGES_SHARE = 0.05
"""Allowance for starting the stages and for filtering, selecting and tokenising:
so many seconds, or this share of a budget that is shorter than 20 minutes."""

WEIGHT_PASSES = 5
"""The base is read to be hashed, and by baseline, train, evaluate and verify."""

DISK_BYTES_PER_SECOND = 0.4e9
"""Cautious rate of reading and placing weights, quantisation included."""


@dataclass(frozen=True)
class Shares:
    """The whole budget in seconds; the four shares add up to it."""

    budget: float
    evaluation: float
    reserve: float
    allowance: float
    training: float


def split_budget(params: Params, shape: ModelShape) -> Shares:
    """Evaluation, reserve and allowance come off first; training gets what is left.

    Raises:
        UserError: nothing is left.
    """
    total = params.budget.hours * 3600
    evaluation = total * params.budget.evaluation_share
    reserve = params.budget.reserve_minutes * 60
    stages = min(STAGES_SECONDS, STAGES_SHARE * total)
    allowance = stages + WEIGHT_PASSES * shape.weight_bytes / DISK_BYTES_PER_SECOND
    training = total - evaluation - reserve - allowance
    if training <= 0:
        raise UserError(
            f"budget.hours: {params.budget.hours:g} leave no time to train: evaluation takes "
            f"{duration(evaluation)}, the reserve {duration(reserve)}, data and loading "
            f"{duration(allowance)}",
            f"Set budget.hours to at least {_least_hours(params, allowance):.2f}, or lower"
            " budget.evaluation_share or budget.reserve_minutes.",
        )
    return Shares(total, evaluation, reserve, allowance, training)


def _least_hours(params: Params, allowance: float) -> float:
    """Hours that leave as long for training as for everything that is fixed."""
    fixed = params.budget.reserve_minutes * 60 + allowance
    return 2 * fixed / (1 - params.budget.evaluation_share) / 3600


def steps_by_clock(training_seconds: float, tokens_per_second: float, tokens_per_step: int) -> int:
    """Whole steps that the training share allows.

    Raises:
        UserError: not even one.
    """
    steps = int(training_seconds * tokens_per_second // tokens_per_step)
    if steps < 1:
        needed = tokens_per_step / tokens_per_second
        raise UserError(
            f"one step of {tokens_per_step:,} tokens takes {duration(needed)} at the predicted "
            f"{tokens_per_second:.3g} tokens/s, training has {duration(training_seconds)}",
            "Lower train.tokens_per_step, raise budget.hours, or give the measured rate in"
            " plan.training_tokens_per_second.",
        )
    return steps


def unique_tokens(steps: int | None, tokens_per_step: int, epochs: float) -> int | None:
    """Tokens worth selecting: what the clock can train, divided by the passes.

    None when params fix the steps: then all data are taken, for the number of
    steps says nothing about how often a trace should be seen.
    """
    return None if steps is None else max(tokens_per_step, int(steps * tokens_per_step / epochs))


def explain_clock(
    shares: Shares, params: Params, steps: int | None, tokens_per_step: int, rate: float
) -> str:
    """The time plan in one sentence."""
    text = (
        f"Time: of {duration(shares.budget)}, {duration(shares.evaluation)} for evaluation, "
        f"{duration(shares.reserve)} reserve, {duration(shares.allowance)} for data and loading, "
        f"so {duration(shares.training)} for training; at {rate:,.0f} tokens/s "
    )
    if steps is not None:
        return f"{text}that is {steps:,} steps of {tokens_per_step:,} tokens."
    fixed = params.train.steps or 0
    needed = fixed * tokens_per_step / rate
    text += f"the {fixed:,} steps of train.steps take {duration(needed)}"
    if needed > shares.training:
        within = int(shares.training * rate // tokens_per_step)
        return f"{text}, which is too long: expect the clock to end training near step {within:,}."
    return f"{text}."
