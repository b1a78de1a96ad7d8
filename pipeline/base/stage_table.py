"""The stages of a run as a table: how many steps, how large the batches, how many tokens.

Pure arithmetic over sizes. `pipeline.plan` writes the table into plan.json,
`python -m pipeline.packing.paper` prints it for a corpus that need not exist, and
training takes its batches from the same functions, so that they cannot disagree.

A step has the same tokens at every stage: as many of the longest sequences as
`train.tokens_per_step` holds, rounded up to a multiple of the ranks. A shorter stage
has as many more sequences as its own are shorter, so one forward pass takes the same
tokens and a rank makes the same number of passes everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from pipeline.base.curriculum import Stage, stage_starts
from pipeline.base.errors import UserError


@dataclass(frozen=True, slots=True)
class StageRow:
    """One stage as it is planned."""

    sequence_tokens: int
    share: float
    """Of the run's steps; the stages' shares add up to 1."""
    tiers: dict[str, float] | None
    steps: int
    tokens: int
    """Room of all its steps in tokens, the unfilled ends of bins included."""
    micro_batch_sequences: int
    """Sequences of one forward pass of one rank."""
    accumulation: int
    """Forward passes of a rank in one step."""
    sequences_per_step: int
    """Over all ranks: micro_batch_sequences × accumulation × ranks."""

    def to_json(self) -> dict[str, Any]:
        """As it stands in plan.json."""
        return asdict(self)


def sequences_per_step(tokens_per_step: int, sequence_tokens: int, ranks: int) -> int:
    """Sequences of one step: at least one, rounded up to a multiple of the ranks."""
    wanted = max(1, tokens_per_step // sequence_tokens)
    return -(-wanted // ranks) * ranks


def largest_micro_batch(sequences: int, most: int) -> int:
    """Largest number up to `most` that divides a rank's sequences of a step; at least 1."""
    sizes = range(min(sequences, max(1, most)), 0, -1)
    return next(size for size in sizes if sequences % size == 0)


def micro_batch_sequences(sequence_tokens: int, micro_batch_tokens: int) -> int:
    """Sequences of one forward pass of a stage.

    Args:
        micro_batch_tokens: of one forward pass of one rank, the same at every stage.

    Raises:
        UserError: they are no whole number of this stage's sequences.
    """
    if micro_batch_tokens % sequence_tokens:
        raise UserError(
            f"{micro_batch_tokens:,} tokens of a forward pass are no whole number of sequences of "
            f"{sequence_tokens:,}",
            "Let every length of `curriculum.stages` divide the longest one.",
        )
    return micro_batch_tokens // sequence_tokens


def stage_rows(
    stages: Sequence[Stage],
    *,
    total_steps: int,
    tokens_per_step: int,
    micro_batch_tokens: int,
    ranks: int,
) -> list[StageRow]:
    """The table of a run that is not re-planned.

    Args:
        tokens_per_step: a multiple of `micro_batch_tokens` × `ranks`.

    Raises:
        UserError: a length does not divide the tokens of a forward pass.
    """
    whole = sum(stage.share for stage in stages)
    starts = [*stage_starts([stage.share for stage in stages], total_steps), total_steps]
    return [
        StageRow(
            sequence_tokens=stage.sequence_tokens,
            share=stage.share / whole,
            tiers=stage.tiers,
            steps=end - start,
            tokens=(end - start) * tokens_per_step,
            micro_batch_sequences=micro_batch_sequences(stage.sequence_tokens, micro_batch_tokens),
            accumulation=tokens_per_step // (micro_batch_tokens * ranks),
            sequences_per_step=tokens_per_step // stage.sequence_tokens,
        )
        for stage, (start, end) in zip(stages, pairwise(starts), strict=True)
    ]
