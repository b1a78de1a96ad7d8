"""`tracebox::packed_attention`: all kernels behind one operator that compilers do not open.

Called by entry.py inside of layers. The document lengths are the contents of a
tensor whose shape they do not change, so that a compiled layer fits every batch;
which kernel runs is decided when it runs. Inputs are kept for the backward pass
together with the output and the log-sums.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.utils.flop_counter import register_flop_formula

from pipeline.learning.attention.dense import Triple
from pipeline.learning.attention.layout import as_given
from pipeline.learning.attention.packing import Documents, documents_in
from pipeline.learning.attention.table import BACKENDS, Backward, Forward, first_fitting

Shape = tuple[int, int, int, int]


def _kernel(names: str, documents: Documents) -> tuple[Forward, Backward]:
    name = first_fitting(names.split(","), documents.lengths)
    kernel = BACKENDS[name].kernel
    assert kernel is not None, name
    return kernel


def _rows(heads: torch.Tensor) -> torch.Tensor:
    """The same tensor with each head's numbers side by side, as all kernels want them."""
    return heads if heads.stride(-1) == 1 else heads.contiguous()


@torch.library.custom_op("tracebox::packed_attention", mutates_args=())
def packed_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bounds: torch.Tensor,
    host_bounds: torch.Tensor,
    scale: float,
    kernels: str,
    window: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Causal attention inside each document of one row.

    Args:
        query: [1, heads, T, head_dim]; key and value: [1, kv_heads, T, head_dim].
        bounds: see `PackedLengths`, like host_bounds and kernels.
        scale: factor on the scores.
        window: tokens that the model's sliding window spans; 0 for none.

    Returns:
        Output [1, T, heads, head_dim] of query's type, and the log of the sum of
        exponentials of each row of scores, fp32 (fp64 for fp64) [heads, T].

    Raises:
        ValueError: the documents are not T tokens, or one is longer than the window.
    """
    documents = documents_in(bounds, host_bounds)
    if sum(documents.lengths) != query.shape[2]:
        raise ValueError(f"document lengths sum to {sum(documents.lengths)}, not {query.shape[2]}")
    if window and max(documents.lengths) > window:
        raise ValueError(f"a document is longer than the model's window of {window}")
    forward, _ = _kernel(kernels, documents)
    out, sums = forward(_rows(query), _rows(key), _rows(value), documents, scale)
    return out.contiguous(), sums.contiguous()


@packed_attention.register_fake
def _(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bounds: torch.Tensor,
    host_bounds: torch.Tensor,
    scale: float,
    kernels: str,
    window: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    _, heads, tokens, head_dim = query.shape
    wide = torch.promote_types(query.dtype, torch.float32)
    return (
        query.new_empty(1, tokens, heads, head_dim),
        query.new_empty(heads, tokens, dtype=wide),
    )


@torch.library.custom_op("tracebox::packed_attention_backward", mutates_args=())
def packed_attention_backward(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    sums: torch.Tensor,
    bounds: torch.Tensor,
    host_bounds: torch.Tensor,
    scale: float,
    kernels: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of query, key and value, by the kernel that made `out`.

    Args:
        grad: [1, T, heads, head_dim], like `out`.

    Returns:
        Shaped like query, key and value, in memory [1, T, heads, head_dim].
    """
    documents = documents_in(bounds, host_bounds)
    _, backward = _kernel(kernels, documents)
    grad, out = grad.contiguous().transpose(1, 2), out.transpose(1, 2)
    saved = (_rows(query), _rows(key), _rows(value), out, sums[None])
    dq, dk, dv = backward(grad, saved, documents, scale)
    return as_given(dq), as_given(dk), as_given(dv)


@packed_attention_backward.register_fake
def _(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    sums: torch.Tensor,
    bounds: torch.Tensor,
    host_bounds: torch.Tensor,
    scale: float,
    kernels: str,
) -> Triple:
    def like(heads: torch.Tensor) -> torch.Tensor:
        _, count, tokens, head_dim = heads.shape
        return heads.new_empty(1, tokens, count, head_dim).transpose(1, 2)

    return like(query), like(key), like(value)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    query, key, value, bounds, host_bounds, scale, kernels, _ = inputs
    out, sums = output
    ctx.mark_non_differentiable(sums)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(query, key, value, out, sums, bounds, host_bounds)
    ctx.scale, ctx.kernels = scale, kernels


def _pull_back(ctx: Any, grad: torch.Tensor | None, _: None) -> tuple[torch.Tensor | None, ...]:
    constants = (None,) * 5
    if grad is None:
        return (None, None, None, *constants)
    gradients = packed_attention_backward(grad, *ctx.saved_tensors, ctx.scale, ctx.kernels)
    return (*cast(Triple, gradients), *constants)


packed_attention.register_autograd(_pull_back, setup_context=_keep)


# The partitioner of compiled layers weighs memory against the work of doing it again. It does
# not know the lengths, so one document is counted, and as torch does it, both halves of the scores.
@register_flop_formula(torch.ops.tracebox.packed_attention)
def _forward_flops(query: Shape, *_: object, **__: object) -> int:
    return 4 * query[1] * query[2] ** 2 * query[3]


@register_flop_formula(torch.ops.tracebox.packed_attention_backward)
def _backward_flops(grad: Shape, query: Shape, *_: object, **__: object) -> int:
    return 10 * query[1] * query[2] ** 2 * query[3]
