"""Documents of one length as a batch through cuDNN's fused attention.

The backend `cudnn` of table.py, called inside the operator: the fastest kernel of
Hopper GPUs where the documents allow it. One document is a batch of one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pipeline.learning.attention.dense import Pair, Saved, Triple
from pipeline.learning.attention.layout import scalar_random_state
from pipeline.learning.attention.packing import Documents

MULTIPLE = 128
"""Lengths are multiples of this: cuDNN makes a plan for each new length, which takes longer
than the attention itself, so that few lengths must do."""


def takes(lengths: Sequence[int]) -> bool:
    """Whether all documents have one length, and that is a multiple of 128."""
    return lengths[0] % MULTIPLE == 0 and len(set(lengths)) == 1


def as_batch(heads: torch.Tensor, documents: int) -> torch.Tensor:
    """[1, heads, documents × L, head_dim] → [documents, heads, L, head_dim], a view."""
    _, count, tokens, head_dim = heads.shape
    return heads.view(count, documents, tokens // documents, head_dim).transpose(0, 1)


def as_row(batch: torch.Tensor) -> torch.Tensor:
    """The inverse of `as_batch`; copies unless tokens are outermost in memory."""
    return batch.transpose(1, 2).flatten(0, 1)[None].transpose(1, 2)


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, documents: Documents, scale: float
) -> Pair:
    """Output [1, T, heads, head_dim] and log-sums [heads, T]; see op.py."""
    batch = (as_batch(x, len(documents.lengths)) for x in (q, k, v))
    result = torch.ops.aten._scaled_dot_product_cudnn_attention(
        *batch, None, True, 0.0, True, False, scale=scale
    )
    sums = result[1].flatten(2).transpose(0, 1).flatten(1)
    return as_row(result[0]).transpose(1, 2), sums


def backward(grad: torch.Tensor, saved: Saved, documents: Documents, scale: float) -> Triple:
    """Gradients of query, key and value; see op.py."""
    count, length = len(documents.lengths), documents.lengths[0]
    *heads, sums = saved
    q, k, v, out, grads = (as_batch(x, count) for x in (*heads, grad))
    sums = sums[0].unflatten(1, (count, -1)).transpose(0, 1).contiguous()[..., None]
    state = scalar_random_state(q)
    dq, dk, dv = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        grads, q, k, v, out, sums, state, state, None, None, None, length, length, 0.0, True,
        scale=scale,
    )  # fmt: skip
    return as_row(dq), as_row(dk), as_row(dv)
