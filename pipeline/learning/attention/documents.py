"""One causal attention call a document: right on every device, for every type and length.

The backend `sdpa` of table.py, called inside the operator. Documents cannot see
each other, since no call is given two of them.
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from pipeline.learning.attention.dense import (
    Dense,
    Pair,
    Saved,
    Triple,
    capability_of,
    choose_dense,
)
from pipeline.learning.attention.layout import repeated, tokens_first
from pipeline.learning.attention.packing import Documents


def _kernel(q: torch.Tensor) -> Dense:
    return choose_dense(q.device.type, capability_of(q.device), q.dtype, q.shape[-1])


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, documents: Documents, scale: float
) -> Pair:
    """Output [1, T, heads, head_dim] and log-sums [heads, T]; see op.py."""
    kernel = _kernel(q)
    lengths = documents.lengths
    parts = [
        kernel.forward(query, key, value, scale)
        for query, key, value in zip(*(x.split(lengths, 2) for x in (q, k, v)), strict=True)
    ]
    out = torch.cat([tokens_first(part) for part, _ in parts], 1)
    return out, torch.cat([sums[0] for _, sums in parts], 1)


def backward(grad: torch.Tensor, saved: Saved, documents: Documents, scale: float) -> Triple:
    """Gradients of query, key and value; see op.py."""
    kernel = _kernel(saved[0])
    lengths = documents.lengths
    pieces = zip(*(x.split(lengths, 2) for x in saved), strict=True)
    parts = [
        # Some kernels take a pointer to the log-sums and no strides.
        kernel.backward(part, (q, k, v, out, sums.contiguous()), scale)
        for part, (q, k, v, out, sums) in zip(grad.split(lengths, 2), pieces, strict=True)
    ]
    dq, dk, dv = (torch.cat([tokens_first(x) for x in xs], 1) for xs in zip(*parts, strict=True))
    return tokens_first(dq), tokens_first(dk), tokens_first(dv)


def with_dropout(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: tuple[int, ...],
    scale: float,
    dropout: float,
) -> torch.Tensor:
    """The same with dropout on the attention weights, which no other backend has.

    Left to autograd, so that the same weights are dropped in both directions.

    Returns:
        [1, T, heads, head_dim].
    """
    k, v = repeated(k, q.shape[1]), repeated(v, q.shape[1])
    parts = [
        scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scale, dropout_p=dropout
        )
        for query, key, value in zip(*(x.split(lengths, 2) for x in (q, k, v)), strict=True)
    ]
    return torch.cat(parts, 2).transpose(1, 2)
