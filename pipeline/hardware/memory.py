"""How much memory a training step needs, part by part.

A pure model of this project's own training loop: frozen base, adapters with fp32
masters, documents packed without a T² mask, a loss that is chunked over positions,
decoder layers that are compiled or not. Every part carries its formula, so that a
person can check the table in plan.json with a calculator.

Symbols: T packed tokens of one forward pass, h hidden, i MLP width, q and k
widths of all query and key heads, V vocabulary, c bytes of the compute type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pipeline.base.fingerprint import ModelShape
from pipeline.hardware.counts import (
    Targets,
    adapted,
    adapter_elements,
    linear_elements,
    linears,
    other_elements,
)
from pipeline.hardware.spread import gathered_elements

GIB = 2**30
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

NF4_BYTES = (4 + 8 / 64 + 32 / (64 * 256)) / 8
"""Bytes a weight: 4 bits, an 8-bit scale per 64 weights and a 32-bit scale per
256 of those (double quantisation; QLoRA, arXiv 2305.14314, section 3)."""

STORED_BYTES = {"nf4": NF4_BYTES, "int8": 1.0, "fp8": 2.0}
"""Bytes a weight; fp8 is stored twice, once for each direction (learning/frozen.py)."""
STORED_HOW = {"nf4": ", double quantised", "int8": "", "fp8": ", for each direction"}

LOGIT_BYTES = {4: 8, 2: 12}
"""Bytes a logit at the worst moment of the chunked loss, by the bytes of the compute
type: the logits, their fp32 copy where they are no fp32, the gradient in fp32 and in
the compute type. One kernel (compiled) holds logits and gradient in the compute type."""

MASTER_BYTES, GRADIENT_BYTES, MOMENT_BYTES = 4, 4, 8
"""Adapter weights, their gradients and AdamW's two moments, all fp32
(AdamW, arXiv 1711.05101)."""

OPTIMIZER_BYTES = {
    "adamw": 8.0, "muon": 8.0, "schedule-free": 8.0, "adamw-8bit": 2.1, "adamw-8bit-paged": 0.0,
}  # fmt: skip
"""`train.optimizer` → state of one element on the device: two fp32 tensors at most; two bytes
and a scale for each 256 of them (arXiv 2110.02861); paged, what fits."""

LAYERS_IN_FLIGHT = 3
"""Layer inputs on the device while they travel to the host and back."""

CONTEXT_GIB = {"cuda": 0.5, "cpu": 0.8}
"""CUDA context, loaded kernels and cuBLAS workspace (0.4-0.5 GiB); on a
CPU the resident size of the process after importing torch and transformers."""

COLLECTIVE_GIB = 0.3
"""NCCL's channels and buffers, once there is more than one rank."""

FRAGMENTATION = 0.05
"""Share of what is allocated and freed in every step that the allocator loses
between blocks; packed rows of one length keep it small."""

NORMED_HEADS = frozenset({"qwen3"})
"""Model types that normalise queries and keys, in fp32."""


SHARED_INPUT = (
    ("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("down_proj",),
)  # fmt: skip
"""Linear layers of a block that read the same tensor; o_proj reads attention's output, which
is kept anyway."""


@dataclass(frozen=True)
class Setting:
    """What decides the memory of one rank."""

    device: Literal["cpu", "cuda"]
    ranks: int
    compute_dtype: str
    quantization: str
    sequence_tokens: int
    micro_batch_sequences: int
    recompute: float
    """Share of the layers whose activations are made again in the backward pass."""
    loss_chunk_positions: int
    rank: int
    targets: Targets
    grouped_attention: bool
    """The attention kernel reads grouped keys as they are; else they are repeated."""
    compiled: bool = False
    """Layers and loss are compiled."""
    own_layers: bool = True
    """Plain LoRA, trained by this project's layers; else PEFT's, under autocast."""
    offload: bool = False
    """Inputs of recomputed layers and the embedding wait in host memory."""
    state_bytes: float = MOMENT_BYTES
    """Optimizer state of one adapter element."""
    sharded: bool = False
    """Every rank keeps its share of the base, and gathers a layer when it needs it."""

    @property
    def gradient_checkpointing(self) -> bool:
        """Whether any layer is recomputed."""
        return self.recompute > 0

    def recomputed_layers(self, layers: int) -> int:
        """How many of `layers` are recomputed."""
        return math.ceil(self.recompute * layers)

    @property
    def tokens(self) -> int:
        """T: packed tokens of one forward pass."""
        return self.sequence_tokens * self.micro_batch_sequences


@dataclass(frozen=True)
class Part:
    """One line of the memory table."""

    part: str
    gib: float
    formula: str
    counted: bool = True
    """False: shown for information, or never alive together with a larger part."""


def weights_bytes(shape: ModelShape, dtype: str, quantization: str) -> float:
    """Frozen base: only the linear layers of the blocks are quantised."""
    each = BYTES[dtype]
    if quantization == "none":
        return shape.parameters * each
    return linear_elements(shape) * STORED_BYTES[quantization] + other_elements(shape) * each


def layer_bytes_per_token(shape: ModelShape, setting: Setting) -> int:
    """What one block keeps of one token for its backward pass.

    Compiled (compiled.py says why): its input and that of the MLP (2h), queries and
    keys as attention reads them, v and attention's output (2q + 2k), with normed heads
    q and k before the norm (q + k), gate and up (2i), all in the compute type, besides
    A's outputs, the log-sum-exp of every head and the fp32 factors of the norms.
    Not compiled:

    Norms work in fp32 and keep their input (2·4h, with normed heads 4(q+k)).
    Attention keeps q, k, v and its output, and the log-sum-exp of every head.
    The MLP keeps gate, silu(gate) and up (3i). Every adapter keeps its input:
    layers of this project share theirs, PEFT's cast it each for itself under
    autocast. B keeps A's output.
    """
    c, h, i = BYTES[setting.compute_dtype], shape.hidden, shape.intermediate
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    chosen = adapted(shape, setting.targets)
    normed = shape.model_type in NORMED_HEADS
    small = 4 * shape.heads + 8 + c * setting.rank * len(chosen)
    if setting.compiled:
        factors = 4 * (shape.heads + shape.kv_heads) if normed else 0
        return c * (2 * h + (2 + normed) * (query + key) + 2 * i) + small + factors
    norms = 8 * h + (4 * (query + key) if normed else 0)
    attention = 2 * c * (query + key)
    if c == 4 or setting.own_layers:
        inputs = sum(max((chosen[n][0] for n in g if n in chosen), default=0) for g in SHARED_INPUT)
    else:
        inputs = sum(side for side, _ in chosen.values())
    return norms + attention + 3 * c * i + c * inputs + small


def embedding_on_host(shape: ModelShape, setting: Setting) -> int:
    """Elements of the embedding, if it waits in host memory: a head of its own must stay."""
    return shape.vocabulary * shape.hidden if setting.offload and not shape.tied_embeddings else 0


def _state_parts(shape: ModelShape, s: Setting) -> list[Part]:
    """What stays for the whole run."""
    elements = adapter_elements(shape, s.rank, s.targets)
    weights = weights_bytes(shape, s.compute_dtype, s.quantization)
    away = embedding_on_host(shape, s) * BYTES[s.compute_dtype]
    how = f"{shape.parameters:,} × {BYTES[s.compute_dtype]} B ({s.compute_dtype})"
    if s.quantization != "none":
        how = (
            f"{linear_elements(shape):,} × {STORED_BYTES[s.quantization]:.4f} B "
            f"({s.quantization}{STORED_HOW[s.quantization]}) + "
            f"{other_elements(shape):,} × {BYTES[s.compute_dtype]} B (embeddings, head, norms)"
        )
    if away:
        how += f" − {away:,} B (the embedding, in host memory)"
    if s.sharded:
        weights, how = weights / s.ranks, f"{how} / {s.ranks} ranks"
    parts = [
        Part("base weights", (weights - away) / GIB, how),
        Part("adapter masters", elements * MASTER_BYTES / GIB, f"{elements:,} × 4 B"),
        Part("adapter gradients", elements * GRADIENT_BYTES / GIB, f"{elements:,} × 4 B"),
        Part(
            "optimizer state", elements * s.state_bytes / GIB, f"{elements:,} × {s.state_bytes:g} B"
        ),
    ]
    if BYTES[s.compute_dtype] == 2 and s.recompute < 1:
        formula = f"{elements:,} × 2 B, cast in the pass"
        parts.append(Part("adapter in 16 bits", elements * 2 / GIB, formula))
    if s.sharded:
        (more, formula), c = gathered_elements(shape), BYTES[s.compute_dtype]
        parts.append(Part("gathered weights", more * c / GIB, f"{formula} × {c} B"))
    if s.quantization in ("nf4", "int8"):
        widest = max(wide * high for wide, high in linears(shape).values())
        formula = f"{widest:,} × {BYTES[s.compute_dtype]} B (one linear layer at a time)"
        parts.append(Part("dequantised weight", widest * BYTES[s.compute_dtype] / GIB, formula))
    return parts


def _step_parts(shape: ModelShape, s: Setting) -> list[Part]:
    """What comes and goes in every step.

    The loss, with the last states it reads, is over before the backward pass
    enters a block: only the larger of the two is counted.
    """
    c, h, tokens = BYTES[s.compute_dtype], shape.hidden, s.tokens
    layer = layer_bytes_per_token(shape, s)
    # Gradient of the MLP's product: in c, in fp32 on the way through the cast, in c again.
    work = (10 if c == 2 else 8) * shape.intermediate
    if not s.grouped_attention:
        # Keys and values repeated for every query head, and their gradients, come before that.
        work = max(work, 4 * c * shape.heads * shape.head_dim)
    again = s.recomputed_layers(shape.layers)
    kept = []
    if again:
        here = min(again, LAYERS_IN_FLIGHT) if s.offload else again
        rest = f"; those of {again} layers wait on the host" if s.offload else ""
        kept.append(
            Part(
                "layer inputs (checkpoints)", here * tokens * h * c / GIB,
                f"{here} layers × {tokens:,} tokens × {h:,} × {c} B{rest}",
            )
        )  # fmt: skip
    if again < shape.layers:
        kept.append(
            Part(
                "activations of kept layers", (shape.layers - again) * tokens * layer / GIB,
                f"{shape.layers - again} layers × {tokens:,} tokens × {layer:,} B",
            )
        )  # fmt: skip
    if again == shape.layers:
        block = Part(
            "one block, made again", tokens * (layer + work) / GIB,
            f"{tokens:,} tokens × ({layer:,} B kept + {work:,} B of gradients)",
        )  # fmt: skip
    else:
        # The last layers are kept and come first: by the turn of a recomputed one there is room.
        block = Part(
            "gradients in one block", tokens * work / GIB, f"{tokens:,} tokens × {work:,} B"
        )
    positions = min(s.loss_chunk_positions, tokens)
    logit = 2 * c if s.compiled else LOGIT_BYTES[c]
    loss = Part(
        "loss chunk",
        (positions * shape.vocabulary * logit + tokens * h * (4 + 3 * c)) / GIB,
        f"{positions:,} positions × {shape.vocabulary:,} × {logit} B (logits and gradient) + "
        f"{tokens:,} last states × {h:,} × {4 + 3 * c} B",
    )
    smaller = block if block.gib < loss.gib else loss
    return [*kept, *(_uncounted(part) if part is smaller else part for part in (block, loss))]


def _uncounted(part: Part) -> Part:
    formula = f"{part.formula}; not alive together with the larger part"
    return Part(part.part, part.gib, formula, counted=False)


def training_parts(shape: ModelShape, setting: Setting) -> list[Part]:
    """The memory table of one rank, in GiB; its counted lines add up to the need."""
    steps = _step_parts(shape, setting)
    moving = sum(part.gib for part in steps if part.counted)
    context = "driver context, libraries, workspaces" if setting.device == "cuda" else "the process"
    parts = [*_state_parts(shape, setting), *steps]
    parts.append(
        Part("fragmentation", moving * FRAGMENTATION, f"{FRAGMENTATION:.0%} of {moving:.2f} GiB")
    )
    parts.append(Part("context", CONTEXT_GIB[setting.device], context))
    if setting.ranks > 1:
        parts.append(Part("collectives", COLLECTIVE_GIB, f"buffers between {setting.ranks} ranks"))
    full = setting.tokens * shape.vocabulary * 4 / GIB
    parts.append(
        Part(
            "full logits, never made", full,
            f"{setting.tokens:,} × {shape.vocabulary:,} × 4 B a copy; shown for information",
            counted=False,
        )
    )  # fmt: skip
    return parts


def needed_gib(parts: list[Part]) -> float:
    """Sum of the counted lines."""
    return sum(part.gib for part in parts if part.counted)
