"""Products with int8 and nf4 weights that are unpacked for each use and never kept.

Called by frozen.py. They are operators that a compiler does not look into: seen through,
it would unpack a weight once and keep all of it from the forward to the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch


def _unpacked_int8(weight: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return weight.to(dtype) * scales.to(dtype)


@torch.library.custom_op("tracebox::int8_product", mutates_args=())
def int8_product(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """x [M, in] times the transposed weight, int8 [out, in] with scales [out, 1]."""
    return x @ _unpacked_int8(weight, scales, x.dtype).t()


@torch.library.custom_op("tracebox::int8_gradient", mutates_args=())
def _int8_gradient(
    gradient: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor
) -> torch.Tensor:
    return gradient @ _unpacked_int8(weight, scales, gradient.dtype)


@int8_product.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])


@_int8_gradient.register_fake
def _(gradient: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return gradient.new_empty(gradient.shape[0], weight.shape[1])


def _int8_setup(ctx: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _int8_backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    return _int8_gradient(gradient, *ctx.saved_tensors), None, None


int8_product.register_autograd(_int8_backward, setup_context=_int8_setup)


def _unpacked_nf4(
    packed: torch.Tensor,
    scales: torch.Tensor,
    scale_scales: torch.Tensor,
    scale_code: torch.Tensor,
    scale_offset: torch.Tensor,
    rows: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """The weight [rows, columns]; the block sizes are bitsandbytes' defaults."""
    unpack = torch.ops.bitsandbytes
    absolute = unpack.dequantize_blockwise(scales, scale_scales, scale_code, 256, torch.float32)
    shape = [rows, 2 * packed.numel() // rows]
    weight: torch.Tensor = unpack.dequantize_4bit(
        packed, absolute + scale_offset, 64, "nf4", shape, dtype
    )
    return weight


@torch.library.custom_op("tracebox::nf4_product", mutates_args=())
def nf4_product(
    x: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    scale_scales: torch.Tensor,
    scale_code: torch.Tensor,
    scale_offset: torch.Tensor,
    rows: int,
) -> torch.Tensor:
    """x [M, in] times the transposed weight [rows, in]; the rest as in `_unpacked_nf4`."""
    stored = (packed, scales, scale_scales, scale_code, scale_offset)
    return x @ _unpacked_nf4(*stored, rows, x.dtype).t()


@torch.library.custom_op("tracebox::nf4_gradient", mutates_args=())
def _nf4_gradient(
    gradient: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    scale_scales: torch.Tensor,
    scale_code: torch.Tensor,
    scale_offset: torch.Tensor,
) -> torch.Tensor:
    stored = (packed, scales, scale_scales, scale_code, scale_offset)
    return gradient @ _unpacked_nf4(*stored, gradient.shape[1], gradient.dtype)


@nf4_product.register_fake
def _(
    x: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    scale_scales: torch.Tensor,
    scale_code: torch.Tensor,
    scale_offset: torch.Tensor,
    rows: int,
) -> torch.Tensor:
    return x.new_empty(x.shape[0], rows)


@_nf4_gradient.register_fake
def _(
    gradient: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    scale_scales: torch.Tensor,
    scale_code: torch.Tensor,
    scale_offset: torch.Tensor,
) -> torch.Tensor:
    return gradient.new_empty(gradient.shape[0], 2 * packed.numel() // gradient.shape[1])


def _nf4_setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[1:-1])


def _nf4_backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    return _nf4_gradient(gradient, *ctx.saved_tensors), *(None for _ in range(6))


nf4_product.register_autograd(_nf4_backward, setup_context=_nf4_setup)
