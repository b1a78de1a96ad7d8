"""Why a fit was chosen, in sentences for plan.json."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipeline.base.stage_table import StageRow
from pipeline.hardware.fit import LOSS_CHUNKS, Fit, Fitter
from pipeline.hardware.memory import Setting


def explain(fitter: Fitter, fit: Fit, options: list[str], found: list[Setting]) -> list[str]:
    """One sentence a decision.

    Args:
        options: the ways to store the base that were open.
        found: the best setting of each option that fits.
    """
    sentences = [
        _storage(fitter, fit.setting, options, found),
        *_parallel(fitter, fit.setting, found),
        _length(fitter, fit.setting),
        _recomputation(fitter, fit.setting),
    ]
    if fit.setting.loss_chunk_positions != LOSS_CHUNKS[0]:
        sentences.append(
            f"Loss: {fit.setting.loss_chunk_positions:,} positions at a time, since the logits of "
            f"{LOSS_CHUNKS[0]:,} would not fit."
        )
    return [*sentences, _batch(fit, fitter.params.train.tokens_per_step)]


def _storage(fitter: Fitter, s: Setting, options: list[str], found: list[Setting]) -> str:
    stored = s.quantization if s.quantization != "none" else s.compute_dtype
    if fitter.params.train.base_quantization != "auto":
        return f"Storage of the base: {stored}, as train.base_quantization says."
    if s.quantization == "none":
        length = " at this length" if len(options) > 1 and len(found) > 1 else ""
        return f"Storage of the base: {stored}, since it fits without quantisation{length}."
    whole = [one for one in found if not one.sharded]
    unquantised = next((one for one in whole if one.quantization == "none"), None)
    if unquantised is not None:
        reason = f"it leaves room for only {unquantised.sequence_tokens:,} tokens a sequence"
    else:
        least = min(fitter.need(one) for one in fitter.at("none", fitter.lengths[-1]))
        reason = f"it needs {least:.1f} GiB even with sequences of {fitter.lengths[-1]:,} tokens"
    return f"Storage of the base: nf4; in {s.compute_dtype} {reason}."


def _parallel(fitter: Fitter, s: Setting, found: list[Setting]) -> list[str]:
    """What each of several ranks holds of the base."""
    if s.ranks == 1:
        return []
    asked = fitter.params.train.parallel != "auto"
    if not s.sharded:
        why = "as train.parallel says" if asked else "since it fits"
        return [f"Parallel: the whole base on each of {s.ranks} ranks, {why}."]
    whole = next((one for one in found if not one.sharded), None)
    if asked:
        why = "as train.parallel says"
    elif whole is not None:
        why = f"since whole it leaves room for only {whole.sequence_tokens:,} tokens a sequence"
    else:
        least = min(fitter.need(one) for one in fitter.at("none", fitter.lengths[-1]))
        why = f"since whole it needs {least:.1f} GiB of {fitter.devices.capacity_gib:.1f} on each"
    return [
        f"Parallel: the base spread over {s.ranks} ranks, {why}. Each layer is gathered "
        "when it is needed."
    ]


def _length(fitter: Fitter, s: Setting) -> str:
    if fitter.params.curriculum.stages:
        return (
            f"Sequences: at most {s.sequence_tokens:,} tokens, as curriculum.stages says. Longer "
            "traces are dropped whole."
        )
    if fitter.params.plan.sequence_tokens is not None:
        return f"Sequences: {s.sequence_tokens:,} tokens, as plan.sequence_tokens says."
    if s.sequence_tokens == fitter.lengths[0]:
        return (
            f"Sequences: {s.sequence_tokens:,} tokens, the longest choice within the base's "
            f"{fitter.shape.max_positions:,} positions and train.tokens_per_step."
        )
    longer = fitter.lengths[fitter.lengths.index(s.sequence_tokens) - 1]
    need = min(fitter.need(one) for one in fitter.at(s.quantization, longer, sharded=s.sharded))
    return (
        f"Sequences: {s.sequence_tokens:,} tokens, the longest choice that fits: {longer:,} need "
        f"{need:.2f} GiB of {fitter.devices.capacity_gib:.2f}. Longer traces are dropped whole."
    )


def _recomputation(fitter: Fitter, s: Setting) -> str:
    if fitter.params.plan.gradient_checkpointing is not None:
        state = "on" if s.gradient_checkpointing else "off"
        return f"Recomputation: {state}, as plan.gradient_checkpointing says."
    if not s.gradient_checkpointing:
        return "Recomputation: off; all activations fit, which saves a forward pass."
    settings = fitter.at(s.quantization, s.sequence_tokens, sharded=s.sharded)
    if s.offload:
        here = min(fitter.need(one) for one in settings if not one.offload)
        return (
            f"Recomputation: all layers, whose inputs, like the embedding, wait in host memory: "
            f"on the card they would need {here:.1f} GiB of {fitter.devices.capacity_gib:.1f}."
        )
    less = [one for one in settings if one.recompute < s.recompute]
    nearest = min((fitter.need(one), -one.recompute) for one in less)
    layers, again = fitter.shape.layers, s.recomputed_layers(fitter.shape.layers)
    fewer = math.ceil(-nearest[1] * layers)
    return (
        f"Recomputation: {again} of {layers} layers; {fewer} would need {nearest[0]:.1f} GiB of "
        f"{fitter.devices.capacity_gib:.1f}."
    )


def _batch(fit: Fit, wanted: int) -> str:
    s = fit.setting
    text = (
        f"Batch: {fit.sequences_per_step} sequences a step = {s.ranks} "
        f"{'rank' if s.ranks == 1 else 'ranks'} × {s.micro_batch_sequences} at a time × "
        f"{fit.accumulation} forward {'pass' if fit.accumulation == 1 else 'passes'}"
    )
    if fit.tokens_per_step == wanted:
        return f"{text}."
    return (
        f"{text}; that is {fit.tokens_per_step:,} tokens where train.tokens_per_step says "
        f"{wanted:,}, since sequences are whole and every rank takes as many."
    )


def explain_stages(fit: Fit, rows: Sequence[StageRow]) -> str:
    """The curriculum in one sentence."""
    ranks = fit.setting.ranks
    text = "; ".join(
        f"{row.steps:,} steps of {row.sequences_per_step} × {row.sequence_tokens:,} tokens "
        f"({row.micro_batch_sequences} × {row.accumulation} × {ranks})"
        for row in rows
    )
    return (
        f"Curriculum: {len(rows)} stages with {fit.tokens_per_step:,} tokens a step and "
        f"{fit.setting.tokens:,} a forward pass at each: {text} (at a time × passes × ranks). "
        "Fewer data or less time shorten all stages alike."
    )
