"""Floating-point operations of training a LoRA, from the shape of the base alone.

Used by pipeline/hardware to predict a rate and by pipeline/learning to report what
share of the card's peak a step reached (MFU). A multiplication and an addition
count as two operations, as data sheets count them.

Sources: forward 2 and backward 4 operations a weight and token, of which a frozen
weight needs the 2 of its input's gradient only (PaLM, arXiv 2204.02311, appendix B;
LoRA, arXiv 2106.09685, section 4.1); attention backward 2.5 times forward when it
makes its scores again, 2 times without (FlashAttention-2, arXiv 2307.08691,
section 4.1).
"""

from __future__ import annotations

from pipeline.base.fingerprint import ModelShape


def linears(shape: ModelShape) -> dict[str, tuple[int, int]]:
    """Name → (in, out) of every linear layer of one block."""
    hidden, inner = shape.hidden, shape.intermediate
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return {
        "q_proj": (hidden, query),
        "k_proj": (hidden, key),
        "v_proj": (hidden, key),
        "o_proj": (query, hidden),
        "gate_proj": (hidden, inner),
        "up_proj": (hidden, inner),
        "down_proj": (inner, hidden),
    }


def linear_elements(shape: ModelShape) -> int:
    """Elements of all linear layers of all blocks, without the head."""
    return shape.layers * sum(wide * high for wide, high in linears(shape).values())


def attention_flops(shape: ModelShape, squared_lengths: int) -> int:
    """Forward pass of the attention of all layers over causal documents.

    Scores and their product with the values are 4·L² operations a query channel, of
    which the causal half is needed.

    Args:
        squared_lengths: sum of L² over the documents.
    """
    return 2 * squared_lengths * shape.heads * shape.head_dim * shape.layers


def spent_flops_per_token(
    shape: ModelShape, adapter_elements: int, sequence_tokens: int, *, recomputed: float
) -> float:
    """Operations that this trainer spends on a packed token, repeated ones included.

    For documents as long as the sequence, all of whose tokens are trained.

    Args:
        recomputed: share of the layers that do their forward pass again.
    """
    attention = attention_flops(shape, sequence_tokens**2) / sequence_tokens
    return float(
        (4 + 2 * recomputed) * linear_elements(shape)
        + (6 + 2 * recomputed) * adapter_elements
        + (3.5 + recomputed) * attention
        + 4 * shape.hidden * shape.vocabulary
    )


def useful_flops(
    shape: ModelShape, adapter_elements: int, *, tokens: int, trained: int, squared_lengths: int
) -> float:
    """Operations that a step needs however it is computed: the numerator of MFU.

    Nothing that is made twice counts, and the head counts for the trained tokens alone.

    Args:
        tokens: of the step.
        trained: of these, with a loss.
        squared_lengths: sum of L² over the step's documents.
    """
    return float(
        (4 * linear_elements(shape) + 6 * adapter_elements) * tokens
        + 3 * attention_flops(shape, squared_lengths)
        + 4 * shape.hidden * shape.vocabulary * trained
    )
