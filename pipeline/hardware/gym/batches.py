"""The part that families about memory share: micro-batch, accumulation, effective batch.

Called by the memory families; holds the two rules of the text about batches and what
follows from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from pipeline.hardware.gym import formulas as f
from pipeline.hardware.gym.cases import Case, Gold, Value, answer

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.",
    "RuntimeError: CUDA out of memory. Tried to allocate 896.00 MiB (GPU 0)",
    "[rank0]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.12 GiB.",
    "terminate called after throwing: cudaErrorMemoryAllocation: out of memory",
    "WARNING NCCL watchdog: collective timed out after another rank ran out of memory",
)
BATCH_RULE = (
    "Last, set gradient_accumulation_steps so that micro_batch × gradient_accumulation_steps ×"
    " gpus = target_batch. Report batch_off_target if the given config misses target_batch."
)
MICRO_RULE = (
    "micro_batch keeps its value if it fits; else it becomes the largest divisor of"
    " target_batch / gpus that fits (micro_batch_too_large)."
)


class Batch(NamedTuple):
    """How a step's sequences are cut up, as configured."""

    micro: int
    accumulation: int
    gpus: int
    target: int


def divisor_batches(rng: Random, gpus: int) -> tuple[int, int, int]:
    """Micro-batch, accumulation (at times wrong) and target batch."""
    per_rank = rng.choice((8, 12, 16, 24, 32, 48))
    micro = f.largest_divisor(per_rank, rng.choice((2, 3, 4, 6, 8)))
    steps = per_rank // micro
    if rng.random() < 0.6:
        steps = max(1, rng.choice((steps // 2, steps * 2, steps + 1, steps * gpus)))
    return micro, steps, per_rank * gpus


def batch_answer(
    case: Case,
    batch: Batch,
    fits: float,
    codes: Mapping[str, bool],
    intermediates: Mapping[str, float],
    fix: Mapping[str, Value],
) -> Gold | None:
    """Fit the micro-batch, then the accumulation; both rules are those of the text.

    Args:
        fits: sequences that the room holds.
        codes, intermediates, fix: what the family has found beside the batch.
    """
    per_rank = batch.target // batch.gpus
    small = batch.micro > fits
    chosen = f.largest_divisor(per_rank, fits) if small else batch.micro
    if not chosen or per_rank % chosen:
        return None
    effective = batch.micro * batch.accumulation * batch.gpus
    off = {"micro_batch_too_large": small, "batch_off_target": effective != batch.target}
    return answer(
        {**codes, **off},
        {**intermediates, "effective_batch": effective},
        {**fix, "micro_batch": chosen, "gradient_accumulation_steps": per_rank // chosen},
        case,
    )
