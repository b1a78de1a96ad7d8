"""CUDA's attention operators of torch, stood in for on the CPU.

Each takes what the real one takes (the real schema is asked, with tensors that hold
no numbers), and computes by the written-out kernel. So layouts, head groups and the
order of arguments are tested where there is no GPU; the real kernels are in tests/gpu.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch.nn.functional import pad

from pipeline.learning.attention.dense import MATH

Heads = torch.Tensor


def bind(operator: Any, given: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Fail unless the real operator can be called with these arguments."""
    schema = operator.default._schema
    arguments = {
        argument.name: value for argument, value in zip(schema.arguments, given, strict=False)
    } | keywords
    needed = {a.name for a in schema.arguments if not a.has_default_value()}
    assert needed <= arguments.keys(), needed - arguments.keys()
    kinds: dict[str, type | tuple[type, ...]] = {
        "Tensor": (torch.Tensor, type(None)),  # None is an undefined tensor
        "float": float,
        "bool": bool,
        "int": int,
    }
    for argument in schema.arguments:
        kind = kinds.get(str(argument.type))
        if argument.name in arguments and kind is not None:
            assert isinstance(arguments[argument.name], kind), argument.name


def spans(ends: torch.Tensor) -> list[tuple[int, int]]:
    assert ends.dtype is torch.int32
    return list(pairwise(ends.tolist()))


def flash_forward(q: Heads, k: Heads, v: Heads, ends: Heads, *_: Any, scale: float) -> Any:
    parts = [
        MATH.forward(*(x[None, a:b].transpose(1, 2) for x in (q, k, v)), scale)
        for a, b in spans(ends)
    ]
    out = torch.cat([part[0].transpose(0, 1) for part, _ in parts])
    return out, torch.cat([sums[0] for _, sums in parts], 1), None, None, None


def flash_backward(
    grad: Heads, q: Heads, k: Heads, v: Heads, out: Heads, sums: Heads, ends: Heads, *_: Any,
    scale: float,
) -> Any:  # fmt: skip
    assert sums.is_contiguous()
    parts = []
    for a, b in spans(ends):
        g, *saved = (x[None, a:b].transpose(1, 2) for x in (grad, q, k, v, out))
        parts.append(MATH.backward(g, (*saved, sums[None, :, a:b]), scale))  # type: ignore[arg-type]
    return tuple(torch.cat([x[0].transpose(0, 1) for x in xs]) for xs in zip(*parts, strict=True))


def sdpa_flash(q: Heads, k: Heads, v: Heads, dropout: float, causal: bool, scale: float) -> Any:
    assert dropout == 0.0
    assert causal
    return (*MATH.forward(q, k, v, scale), *[None] * 7)


def sdpa_flash_backward(
    grad: Heads, q: Heads, k: Heads, v: Heads, out: Heads, sums: Heads, *_: Any, scale: float
) -> Any:
    assert sums.is_contiguous()
    return MATH.backward(grad, (q, k, v, out, sums), scale)


def efficient(q: Heads, k: Heads, v: Heads, *_: Any, scale: float) -> Any:
    assert q.shape == k.shape == v.shape
    out, sums = MATH.forward(q, k, v, scale)
    return out, pad(sums, (0, -sums.shape[2] % 32), value=float("inf")), None, None


def efficient_backward(
    grad: Heads, q: Heads, k: Heads, v: Heads, bias: None, out: Heads, sums: Heads, *_: Any,
    scale: float,
) -> Any:  # fmt: skip
    assert q.shape == k.shape == v.shape
    assert sums.shape[2] % 32 == 0
    assert sums.is_contiguous()
    assert bool(sums[:, :, q.shape[2] :].isinf().all())
    return (*MATH.backward(grad, (q, k, v, out, sums[:, :, : q.shape[2]]), scale), None)


def cudnn(q: Heads, k: Heads, v: Heads, *_: Any, scale: float) -> Any:
    out, sums = MATH.forward(q, k, v, scale)
    return (torch.empty_like(q).copy_(out), sums[..., None].contiguous(), *[None] * 7)


def cudnn_backward(
    grad: Heads, q: Heads, k: Heads, v: Heads, out: Heads, sums: Heads, *_: Any, scale: float
) -> Any:
    assert sums.shape == (*q.shape[:3], 1)
    assert sums.is_contiguous()
    return MATH.backward(grad, (q, k, v, out, sums[..., 0]), scale)


STANDING_IN: dict[str, Callable[..., Any]] = {
    "_flash_attention_forward": flash_forward,
    "_flash_attention_backward": flash_backward,
    "_scaled_dot_product_flash_attention": sdpa_flash,
    "_scaled_dot_product_flash_attention_backward": sdpa_flash_backward,
    "_scaled_dot_product_efficient_attention": efficient,
    "_scaled_dot_product_efficient_attention_backward": efficient_backward,
    "_scaled_dot_product_cudnn_attention": cudnn,
    "_scaled_dot_product_cudnn_attention_backward": cudnn_backward,
}


def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the operators until the test ends; returns the names called, as they are."""
    called: list[str] = []

    def checked(name: str, real: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **keywords: Any) -> Any:
            bind(real, given, keywords)
            called.append(name)
            return function(*given, **keywords)

        return call

    for name, function in STANDING_IN.items():
        real = getattr(torch.ops.aten, name)
        monkeypatch.setattr(torch.ops.aten, name, checked(name, real, function))
    return called
