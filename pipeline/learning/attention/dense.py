"""Causal attention of one document, forward and backward, by the kernels that SDPA has.

Used by documents.py for one document after another. Each kernel is called with its
backward written out, since an operator of our own has no autograd inside. All
return the log of the sum of exponentials of each row of scores, which is all that
a backward pass needs beside inputs and output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from pipeline.learning.attention.layout import (
    repeated,
    scalar_random_state,
    summed,
    unused_random_state,
)

Capability = tuple[int, int]
Pair = tuple[torch.Tensor, torch.Tensor]
Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Saved = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""query, key, value, output [1, heads, L, head_dim], log-sums [1, heads, L]."""
HALVES = frozenset({torch.bfloat16, torch.float16})
SCORES_AT_ONCE = 1 << 26
"""Scores that the written-out kernel holds at a time: 268 MB of fp32."""


class Dense(NamedTuple):
    """One kernel; both directions take and give [1, heads, L, head_dim]."""

    name: str
    forward: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], Pair]
    backward: Callable[[torch.Tensor, Saved, float], Triple]


def capability_of(device: torch.device) -> Capability | None:
    """Of a CUDA device; None for others."""
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else None


def flash_takes(head_dim: int, capability: Capability) -> bool:
    """Whether FlashAttention-2 has both directions for this size on this GPU.

    Backward above 192 needs more shared memory than 8.6, 8.9 and 12.x have.
    """
    limit = 192 if capability in ((8, 6), (8, 9)) or capability >= (12, 0) else 256
    return capability >= (8, 0) and head_dim % 8 == 0 and head_dim <= limit


def choose_dense(
    device: str, capability: Capability | None, dtype: torch.dtype, head_dim: int
) -> Dense:
    """The fastest kernel for one document.

    Args:
        device: type of the device, such as "cpu".
        capability: `capability_of` it.
    """
    if device == "cpu" and dtype in HALVES | {torch.float32}:
        return CPU
    if capability is None:
        return MATH
    if dtype in HALVES and flash_takes(head_dim, capability):
        return FLASH
    aligned = head_dim % (4 if dtype is torch.float32 else 8) == 0
    known = dtype in (torch.float32, torch.float16) or (
        dtype is torch.bfloat16 and capability >= (8, 0)
    )
    return EFFICIENT if aligned and known else MATH


def _cpu_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> Pair:
    k, v = repeated(k, q.shape[1]), repeated(v, q.shape[1])
    out, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, True, scale=scale
    )
    return out, sums


def _cpu_backward(grad: torch.Tensor, saved: Saved, scale: float) -> Triple:
    q, k, v, out, sums = saved
    dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, repeated(k, q.shape[1]), repeated(v, q.shape[1]), out, sums, 0.0, True, scale=scale
    )
    return dq, summed(dk, k.shape[1]), summed(dv, v.shape[1])


def _flash_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> Pair:
    result = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True, scale=scale)
    return result[0], result[1]


def _flash_backward(grad: torch.Tensor, saved: Saved, scale: float) -> Triple:
    q, k, v, out, sums = saved
    length = q.shape[2]
    state, unused = unused_random_state(q)
    dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_backward(
        grad, q, k, v, out, sums, None, None, length, length, 0.0, True, state, unused, scale=scale
    )
    return dq, dk, dv


def _efficient_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> Pair:
    k, v = repeated(k, q.shape[1]), repeated(v, q.shape[1])
    result = torch.ops.aten._scaled_dot_product_efficient_attention(
        q, k, v, None, True, 0.0, True, scale=scale
    )
    return result[0], result[1][..., : q.shape[2]]


def _efficient_backward(grad: torch.Tensor, saved: Saved, scale: float) -> Triple:
    q, k, v, out, sums = saved
    # The kernel reads whole groups of 32 rows; its forward fills the last one up like this.
    rows = -(-q.shape[2] // 32) * 32
    padded = torch.nn.functional.pad(sums, (0, rows - q.shape[2]), value=float("inf")).contiguous()
    state = scalar_random_state(q)
    repeats = repeated(k, q.shape[1]), repeated(v, q.shape[1])
    wanted = [True, True, True, False]
    dq, dk, dv, _ = torch.ops.aten._scaled_dot_product_efficient_attention_backward(
        grad, q, *repeats, None, out, padded, state, state, 0.0, wanted, True, scale=scale
    )
    return dq, summed(dk, k.shape[1]), summed(dv, v.shape[1])


def _rows_at_once(q: torch.Tensor) -> int:
    return max(1, SCORES_AT_ONCE // (q.shape[1] * q.shape[2]))


def _scores(q: torch.Tensor, k: torch.Tensor, start: int, scale: float) -> torch.Tensor:
    """Causal scores of the rows `q`, the first of which is row `start`."""
    scores = (q @ k.transpose(-2, -1)) * scale
    hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    return scores.masked_fill(hidden.triu(start + 1), float("-inf"))


def _math_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> Pair:
    wide = torch.promote_types(q.dtype, torch.float32)
    keys = repeated(k, q.shape[1]).to(wide)
    values = repeated(v, q.shape[1]).to(wide)
    out, sums = [], []
    step = _rows_at_once(q)
    for start in range(0, q.shape[2], step):
        scores = _scores(q[:, :, start : start + step].to(wide), keys, start, scale)
        sums.append(scores.logsumexp(-1))
        out.append((scores.softmax(-1) @ values).to(q.dtype))
    return torch.cat(out, 2), torch.cat(sums, 2)


def _math_backward(grad: torch.Tensor, saved: Saved, scale: float) -> Triple:
    """FlashAttention, Dao et al. 2022, appendix B.2, over whole rows of scores."""
    q, k, v, out, sums = saved
    wide = torch.promote_types(q.dtype, torch.float32)
    keys, values = (repeated(x, q.shape[1]).to(wide) for x in (k, v))
    dk, dv = torch.zeros_like(keys), torch.zeros_like(values)
    dq = []
    step = _rows_at_once(q)
    for start in range(0, q.shape[2], step):
        queries, grads, outputs = (x[:, :, start : start + step].to(wide) for x in (q, grad, out))
        share = (
            _scores(queries, keys, start, scale) - sums[:, :, start : start + step, None]
        ).exp()
        pull = grads @ values.transpose(-2, -1) - (grads * outputs).sum(-1, keepdim=True)
        pull = share * pull * scale
        dq.append((pull @ keys).to(q.dtype))
        dk += pull.transpose(-2, -1) @ queries
        dv += share.transpose(-2, -1) @ grads
    return (
        torch.cat(dq, 2),
        summed(dk, k.shape[1]).to(k.dtype),
        summed(dv, v.shape[1]).to(v.dtype),
    )


CPU = Dense("cpu", _cpu_forward, _cpu_backward)
FLASH = Dense("flash", _flash_forward, _flash_backward)
EFFICIENT = Dense("efficient", _efficient_forward, _efficient_backward)
MATH = Dense("math", _math_forward, _math_backward)
