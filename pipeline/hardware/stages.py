"""The curriculum of a plan: its stages checked, and the settings that they train with.

The longest stage decides what fits: a forward pass takes the same tokens at every
stage, so no part of the memory table is larger at a shorter one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pipeline.base.curriculum import Stage
from pipeline.base.errors import UserError
from pipeline.base.params import Params
from pipeline.base.stage_table import micro_batch_sequences
from pipeline.hardware.memory import Setting


def longest_stage(params: Params) -> int | None:
    """Tokens of a sequence of the longest stage; None without a curriculum.

    Raises:
        UserError: bands or stages contradict each other or `plan.sequence_tokens`.
    """
    bands, stages = params.curriculum.bands, params.curriculum.stages
    for lower, upper in pairwise(bands):
        if upper <= lower or upper % lower:
            raise UserError(
                f"curriculum.bands: {upper} does not follow {lower}",
                "Name the bands in ascending order, each a multiple of the one before.",
            )
    for number, stage in enumerate(stages, 1):
        if stage.sequence_tokens not in bands:
            raise UserError(
                f"curriculum.stages: stage {number} has sequences of {stage.sequence_tokens} "
                f"tokens, which is no band of {bands}",
                "Take its length from curriculum.bands, or add the band.",
            )
        wanted = [1.0] if stage.tiers is None else list(stage.tiers.values())
        if min(wanted, default=0) < 0 or not any(wanted):
            raise UserError(
                f"curriculum.stages: stage {number} has the tiers {stage.tiers}",
                "Give shares of at least 0, one of them above 0, or null.",
            )
    longest = max((stage.sequence_tokens for stage in stages), default=None)
    asked = params.plan.sequence_tokens
    if longest is not None and asked not in (None, longest):
        raise UserError(
            f"plan.sequence_tokens: {asked} is not the longest of curriculum.stages, {longest}",
            f"Set plan.sequence_tokens to null or {longest}.",
        )
    return longest


def stages_of(params: Params, sequence_tokens: int) -> list[Stage]:
    """The stages of the run; without a curriculum one of `sequence_tokens`, tiers as they come."""
    given = params.curriculum.stages
    if not given:
        return [Stage(sequence_tokens, 1.0)]
    whole = sum(stage.share for stage in given)
    return [
        Stage(
            stage.sequence_tokens,
            stage.share / whole,
            None if stage.tiers is None else {str(tier): one for tier, one in stage.tiers.items()},
        )
        for stage in given
    ]


def corpus_stages(params: Params, stages: Sequence[Stage], longest: int) -> dict[str, Any]:
    """`bands` and `stages` of corpus.json, for select and tokenize.

    Without a curriculum there is one band, the whole sequence, and no stage.
    """
    if not params.curriculum.stages:
        return {"bands": [longest], "stages": []}
    return {
        "bands": [band for band in params.curriculum.bands if band <= longest],
        "stages": [
            {"sequence_tokens": one.sequence_tokens, "share": one.share, "tiers": one.tiers}
            for one in stages
        ],
    }


def setting_at(setting: Setting, stage: Stage) -> Setting:
    """The setting of the longest stage as it is at another one: as many tokens a pass."""
    return replace(
        setting,
        sequence_tokens=stage.sequence_tokens,
        micro_batch_sequences=micro_batch_sequences(stage.sequence_tokens, setting.tokens),
    )
