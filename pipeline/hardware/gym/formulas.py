"""The arithmetic of training at scale, as pure functions; no state, standard library only.

Called by the gym's task families and open to the whole hardware room. Sizes are bytes
unless a name says otherwise; GIB converts. Sources stand with each formula:

- ZeRO: Rajbhandari et al., arXiv 1910.02054, section 5
- activation memory: Korthikanti et al., arXiv 2205.05198, section 4
- operations: Chowdhery et al. (PaLM), arXiv 2204.02311, appendix B
- pipeline schedule: Narayanan et al., arXiv 2104.04473, section 2.2
"""

from __future__ import annotations

import math

GIB = 2**30

OPTIMIZERS = ("adamw", "adamw_8bit", "adafactor")
"""From the largest state to the smallest."""

MASTER_AND_MOMENTS = {"adamw": 12.0, "adamw_8bit": 6.0, "adafactor": 4.0}
"""Bytes a trained parameter of fp32 master weight and moments: two in fp32; two of one byte
(arXiv 2110.02861); factored, so that rows and columns are all there is (arXiv 1804.04235)."""

CHECKPOINTING = ("none", "selective", "full")
"""From the fastest to the smallest."""


def zero_bytes_per_parameter(stage: int, ranks: int) -> float:
    """Weights, gradients and AdamW states of one parameter on one rank, in bytes.

    bf16 weight 2, bf16 gradient 2, fp32 master and moments 12; stage 1 shards the 12,
    stage 2 the gradient too, stage 3 all (arXiv 1910.02054, figure 1).
    """
    weight, gradient, states = 2.0, 2.0, 12.0
    if stage >= 1:
        states /= ranks
    if stage >= 2:
        gradient /= ranks
    if stage >= 3:
        weight /= ranks
    return weight + gradient + states


def layer_activation_bytes(tokens: int, sequence: int, hidden: int, heads: int, kind: str) -> float:
    """Activations of one layer that are kept for the backward pass, 16-bit.

    tokens = sequence × micro-batch. `none` keeps sbh·(34 + 5as/h), `selective` (scores made
    again) 34·sbh, `full` only the layer's input, 2·sbh (arXiv 2205.05198, table 2).
    """
    wide = tokens * hidden
    if kind == "full":
        return 2.0 * wide
    if kind == "selective":
        return 34.0 * wide
    return wide * (34 + 5 * heads * sequence / hidden)


def activation_bytes(
    layers: int, tokens: int, sequence: int, hidden: int, heads: int, kind: str
) -> float:
    """Activations of all layers at their peak; with `full`, one layer is whole at a time."""
    kept = layers * layer_activation_bytes(tokens, sequence, hidden, heads, kind)
    if kind == "full":
        kept += layer_activation_bytes(tokens, sequence, hidden, heads, "selective")
    return kept


def parallel_layer_activation_bytes(
    tokens: int, hidden: int, tensor: int, *, sequence_parallel: bool
) -> float:
    """One layer's activations on one tensor-parallel rank, scores made again.

    sbh·(10 + 24/t); with sequence parallelism the norms and dropouts are split as well,
    sbh·34/t (arXiv 2205.05198, table 2).
    """
    wide = tokens * hidden
    return wide * (34 / tensor if sequence_parallel else 10 + 24 / tensor)


def pipeline_bubble(stages: int, micro_batches: int) -> float:
    """Idle time over working time of the 1F1B schedule, (p-1)/m (arXiv 2104.04473)."""
    return (stages - 1) / micro_batches


def stage_parameters(layers: int, hidden: int, vocabulary: int, stages: int) -> float:
    """Parameters of the first pipeline stage: 12h² a layer, and the embedding, V·h."""
    return 12.0 * hidden**2 * layers / stages + vocabulary * hidden


def logits_bytes(tokens: int, vocabulary: int) -> float:
    """Logits in 16 bit, their fp32 copy and the fp32 gradient: 10 bytes an entry."""
    return 10.0 * tokens * vocabulary


def kv_bytes_per_token(layers: int, kv_heads: int, head_width: int) -> int:
    """A key and a value of 16 bit for every layer and key head."""
    return 2 * 2 * layers * kv_heads * head_width


def training_flops_per_token(parameters: float, layers: int, hidden: int, attended: float) -> float:
    """6N + 12·L·h·T operations, T tokens attended to (arXiv 2204.02311, appendix B)."""
    return 6 * parameters + 12 * layers * hidden * attended


def steps_per_epoch(examples: int, batch: int) -> int:
    """Optimizer steps of a pass; the last one may be smaller."""
    return math.ceil(examples / batch)


def linear_rate(peak: float, step: float, warmup: int, total: int) -> float:
    """Learning rate after `step` schedule steps: linear up, linear down to zero."""
    if step < warmup:
        return peak * step / warmup
    return peak * max(0.0, (total - step) / max(1, total - warmup))


def largest_divisor(number: int, limit: float) -> int:
    """The largest divisor of `number` that is at most `limit`; 0 when there is none."""
    return next((d for d in range(min(number, math.floor(limit)), 0, -1) if number % d == 0), 0)
