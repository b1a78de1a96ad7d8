"""How much memory a training step needs, part by part.

A pure model of this project's own training loop: frozen base, PEFT adapters
with fp32 masters under autocast, documents packed without a T² mask, a loss
that is chunked over positions. Every part carries its formula, so that a person
can check the table in plan.json with a calculator.

Symbols: T packed tokens of one forward pass, h hidden, i MLP width, q and k
widths of all query and key heads, V vocabulary, c bytes of the compute type.
"""

from __future__ import annotations

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

GIB = 2**30
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

NF4_BYTES = (4 + 8 / 64 + 32 / (64 * 256)) / 8
"""Bytes a weight: 4 bits, an 8-bit scale per 64 weights and a 32-bit scale per
256 of those (double quantisation; QLoRA, arXiv 2305.14314, section 3)."""

LOGIT_BYTES = 12
"""Bytes a logit at the worst moment of the chunked loss: log-softmax, its
gradient and the gradient of the logits, each in fp32."""

MASTER_BYTES, GRADIENT_BYTES, MOMENT_BYTES = 4, 4, 8
"""Adapter weights, their gradients and AdamW's two moments, all fp32
(AdamW, arXiv 1711.05101)."""

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
    ("q_proj", "k_proj", "v_proj"), ("o_proj",), ("gate_proj", "up_proj"), ("down_proj",),
)  # fmt: skip
"""Linear layers of a block that read the same tensor."""


@dataclass(frozen=True)
class Setting:
    """What decides the memory of one rank."""

    device: Literal["cpu", "cuda"]
    ranks: int
    compute_dtype: str
    quantization: str
    sequence_tokens: int
    micro_batch_sequences: int
    gradient_checkpointing: bool
    loss_chunk_positions: int
    rank: int
    targets: Targets
    grouped_attention: bool
    """The attention kernel reads grouped keys as they are; else they are repeated."""

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
    """Frozen base: nf4 quantises the linear layers of the blocks, nothing else."""
    each = BYTES[dtype]
    if quantization == "nf4":
        return linear_elements(shape) * NF4_BYTES + other_elements(shape) * each
    return shape.parameters * each


def layer_bytes_per_token(shape: ModelShape, setting: Setting) -> int:
    """What one block keeps of one token for its backward pass.

    Norms work in fp32 and keep their input (2·4h, with normed heads 4(q+k)).
    Attention keeps q, k, v and its output, and the log-sum-exp of every head.
    The MLP keeps gate, silu(gate) and up (3i). Every adapter keeps its input: a
    copy of its own under autocast, since masters are fp32 and PEFT casts for
    each layer anew; without autocast layers share theirs. B keeps A's output.
    """
    c, h, i = BYTES[setting.compute_dtype], shape.hidden, shape.intermediate
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    chosen = adapted(shape, setting.targets)
    norms = 8 * h + (4 * (query + key) if shape.model_type in NORMED_HEADS else 0)
    attention = 2 * c * query + 2 * c * (key if setting.grouped_attention else query)
    if c == 4:
        inputs = sum(max((chosen[n][0] for n in g if n in chosen), default=0) for g in SHARED_INPUT)
    else:
        inputs = sum(side for side, _ in chosen.values())
    small = 4 * shape.heads + 8 + c * setting.rank * len(chosen)
    return norms + attention + 3 * c * i + c * inputs + small


def _state_parts(shape: ModelShape, s: Setting) -> list[Part]:
    """What stays for the whole run."""
    elements = adapter_elements(shape, s.rank, s.targets)
    weights = weights_bytes(shape, s.compute_dtype, s.quantization)
    how = f"{shape.parameters:,} × {BYTES[s.compute_dtype]} B ({s.compute_dtype})"
    if s.quantization == "nf4":
        how = (
            f"{linear_elements(shape):,} × {NF4_BYTES:.4f} B (nf4, double quantised) + "
            f"{other_elements(shape):,} × {BYTES[s.compute_dtype]} B (embeddings, head, norms)"
        )
    parts = [
        Part("base weights", weights / GIB, how),
        Part("adapter masters", elements * MASTER_BYTES / GIB, f"{elements:,} × 4 B"),
        Part("adapter gradients", elements * GRADIENT_BYTES / GIB, f"{elements:,} × 4 B"),
        Part("AdamW moments", elements * MOMENT_BYTES / GIB, f"{elements:,} × 2 × 4 B"),
    ]
    if BYTES[s.compute_dtype] == 2 and not s.gradient_checkpointing:
        formula = f"{elements:,} × 2 B (autocast)"
        parts.append(Part("adapter in 16 bits", elements * 2 / GIB, formula))
    if s.quantization == "nf4":
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
    if s.gradient_checkpointing:
        kept = Part(
            "layer inputs (checkpoints)", shape.layers * tokens * h * c / GIB,
            f"{shape.layers} layers × {tokens:,} tokens × {h:,} × {c} B",
        )  # fmt: skip
        block = Part(
            "one block, made again", tokens * (layer + work) / GIB,
            f"{tokens:,} tokens × ({layer:,} B kept + {work:,} B of gradients)",
        )  # fmt: skip
    else:
        kept = Part(
            "activations of all layers", shape.layers * tokens * layer / GIB,
            f"{shape.layers} layers × {tokens:,} tokens × {layer:,} B",
        )  # fmt: skip
        block = Part(
            "gradients in one block", tokens * work / GIB, f"{tokens:,} tokens × {work:,} B"
        )
    positions = min(s.loss_chunk_positions, tokens)
    loss = Part(
        "loss chunk",
        (positions * shape.vocabulary * LOGIT_BYTES + tokens * h * (4 + 3 * c)) / GIB,
        f"{positions:,} positions × {shape.vocabulary:,} × {LOGIT_BYTES} B (three fp32 copies) + "
        f"{tokens:,} last states × {h:,} × {4 + 3 * c} B",
    )
    smaller = block if block.gib < loss.gib else loss
    return [kept, *(_uncounted(part) if part is smaller else part for part in (block, loss))]


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
