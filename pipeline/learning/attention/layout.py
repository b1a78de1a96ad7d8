"""Shapes that the kernels share: who is laid out how, and grouped key heads.

Outside of the operator tensors are [1, heads, T, head_dim], in memory mostly
[T, heads, head_dim]. Nothing here copies unless the memory lies otherwise.
"""

from __future__ import annotations

import torch


def tokens_first(heads: torch.Tensor) -> torch.Tensor:
    """[B, heads, T, head_dim] → [B, T, heads, head_dim], a view."""
    return heads.transpose(1, 2)


def repeated(heads: torch.Tensor, wanted: int) -> torch.Tensor:
    """Key or value heads repeated for each query head of their group.

    Args:
        heads: [B, kv_heads, T, head_dim].
        wanted: number of query heads, a multiple of kv_heads.
    """
    groups = wanted // heads.shape[1]
    return heads if groups == 1 else heads.repeat_interleave(groups, 1)


def summed(gradient: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """The gradient of `repeated`: [B, heads, T, head_dim] → [B, kv_heads, T, head_dim]."""
    if gradient.shape[1] == kv_heads:
        return gradient
    batch, heads, tokens, head_dim = gradient.shape
    return gradient.view(batch, kv_heads, heads // kv_heads, tokens, head_dim).sum(2)


def as_given(gradient: torch.Tensor) -> torch.Tensor:
    """[1, heads, T, head_dim] lying in memory as [1, T, heads, head_dim]."""
    return gradient.transpose(1, 2).contiguous().transpose(1, 2)


def unused_random_state(near: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What FlashAttention's backward takes for dropout, and leaves unread without it."""
    return (
        torch.zeros(2, dtype=torch.uint64, device=near.device),
        torch.zeros(0, dtype=torch.uint64, device=near.device),
    )


def scalar_random_state(near: torch.Tensor) -> torch.Tensor:
    """What the other fused backward kernels take for dropout, and leave unread without it."""
    return torch.zeros((), dtype=torch.int64, device=near.device)
