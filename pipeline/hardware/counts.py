"""How many elements a model has where, from its shape alone.

Assumes the block that llama, mistral, qwen2 and qwen3 share: four projections
around the attention and a gated MLP of three.
"""

from __future__ import annotations

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import ModelShape
from pipeline.base.flops import linear_elements as linear_elements
from pipeline.base.flops import linears as linears

Targets = list[str] | str
"""`train.target_modules`: names, or "all-linear"."""


def adapted(shape: ModelShape, targets: Targets) -> dict[str, tuple[int, int]]:
    """The linear layers of one block that carry an adapter.

    Raises:
        UserError: a name is none of them, or there is no name.
    """
    known = linears(shape)
    names = list(known) if isinstance(targets, str) else targets
    unknown = sorted(set(names) - set(known))
    if unknown or not names:
        raise UserError(
            f"train.target_modules: {unknown or 'no name given'}; embeddings and the head belong"
            " to the frozen base",
            f"Choose among {', '.join(known)}, or `all-linear`.",
        )
    return {name: known[name] for name in names}


def other_elements(shape: ModelShape) -> int:
    """Elements that quantisation leaves alone: embeddings, head, norms, biases."""
    return max(0, shape.parameters - linear_elements(shape))


def adapter_elements(shape: ModelShape, rank: int, targets: Targets) -> int:
    """Elements of A [rank, in] and B [out, rank] of every adapted layer.

    Source: LoRA, arXiv 2106.09685, section 4.1.
    """
    return shape.layers * rank * sum(sum(sides) for sides in adapted(shape, targets).values())


def cache_bytes_per_token(shape: ModelShape, element_bytes: int) -> int:
    """Keys and values of one token in all layers."""
    return shape.layers * 2 * shape.kv_heads * shape.head_dim * element_bytes
