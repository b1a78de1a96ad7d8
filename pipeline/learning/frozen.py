"""A frozen linear layer in the storage that the plan chose, with the gradient to its input.

Called by linears.py. Every class here is a module with `forward(x) -> x @ W.T + bias`,
`in_features` and `out_features`, whose weight takes no gradient. bf16, fp16 and fp32 stay
torch.nn.Linear. What a layer stores is made once from the loaded weight.

fp8: e4m3 with one fp32 scale a row of the left and a column of the right factor, in the
forward product and in the gradient's. The two products sum over different axes, so the
weight is stored twice, each copy scaled along its own sum; two bytes a weight, as in bf16.
int8: one byte a weight and one scale a row, multiplied in compute precision.
nf4: half a byte a weight by bitsandbytes (QLoRA, arXiv 2305.14314), unpacked for each
product and never kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import FunctionCtx

from pipeline.learning.unpacking import int8_product, nf4_product

E4M3_MAX = 448.0
"""Largest finite value of torch.float8_e4m3fn (arXiv 2209.05433, table 1)."""
INT8_MAX = 127.0
LEAST_SCALE = 1e-12


def scaled_rows(values: torch.Tensor, largest: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows divided so that the largest entry of each is `largest`, and the fp32 divisors.

    Args:
        values: [rows, columns].

    Returns:
        fp32 [rows, columns] and fp32 [rows, 1].
    """
    values = values.float()
    scales = (values.abs().amax(1, keepdim=True) / largest).clamp(min=LEAST_SCALE)
    return values / scales, scales


def to_fp8(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """e4m3 [rows, columns] and fp32 scale of each row, [rows, 1]."""
    scaled, scales = scaled_rows(values, E4M3_MAX)
    return scaled.to(torch.float8_e4m3fn), scales


def _fp8_product(
    left: torch.Tensor, right: torch.Tensor, right_scales: torch.Tensor
) -> torch.Tensor:
    """left [M, K] in bf16 times right.T, right e4m3 [N, K] with fp32 scales [1, N]."""
    rows, scales = to_fp8(left)
    return torch._scaled_mm(
        rows,
        right.t(),
        scale_a=scales,
        scale_b=right_scales,
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
    )


class _Fp8Linear(torch.autograd.Function):
    """Both products in fp8; the saved tensors are the layer's own, so they cost nothing."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x: torch.Tensor,
        forward_weight: torch.Tensor,
        forward_scales: torch.Tensor,
        backward_weight: torch.Tensor,
        backward_scales: torch.Tensor,
    ) -> torch.Tensor:
        ctx.save_for_backward(backward_weight, backward_scales)
        return _fp8_product(x, forward_weight, forward_scales)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        weight, scales = ctx.saved_tensors
        return _fp8_product(gradient, weight, scales), None, None, None, None


class _Frozen(nn.Module):
    """What the stored forms have in common.

    Args:
        source: the layer as loaded; its bias is shared, its weight is not.
    """

    def __init__(self, source: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = source.in_features, source.out_features
        self.bias = source.bias

    def _rows(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, self.in_features)

    def _finished(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = y.view(*x.shape[:-1], self.out_features)
        return y if self.bias is None else y + self.bias


class Fp8Linear(_Frozen):
    """Stored twice in e4m3: by rows for the product, by columns for the gradient."""

    def __init__(self, source: nn.Linear) -> None:
        super().__init__(source)
        weight = source.weight.data
        forward_weight, forward_scales = to_fp8(weight)
        backward_weight, backward_scales = to_fp8(weight.t())
        self.register_buffer("forward_weight", forward_weight)
        self.register_buffer("forward_scales", forward_scales.t().contiguous())
        self.register_buffer("backward_weight", backward_weight.contiguous())
        self.register_buffer("backward_scales", backward_scales.t().contiguous())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """bf16 [..., in] → bf16 [..., out]."""
        function: Any = _Fp8Linear
        y: torch.Tensor = function.apply(
            self._rows(x),
            self.forward_weight,
            self.forward_scales,
            self.backward_weight,
            self.backward_scales,
        )
        return self._finished(y, x)


class Int8Linear(_Frozen):
    """One byte a weight and one scale a row; products in the input's precision."""

    def __init__(self, source: nn.Linear) -> None:
        super().__init__(source)
        scaled, scales = scaled_rows(source.weight.data, INT8_MAX)
        self.register_buffer("weight", scaled.round().to(torch.int8))
        self.register_buffer("scales", scales)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] → [..., out] in the input's dtype."""
        return self._finished(int8_product(self._rows(x), self.weight, self.scales), x)


class Nf4Linear(_Frozen):
    """Half a byte a weight, as bitsandbytes packed it, its scales packed once more.

    Args:
        source: bitsandbytes' layer, already on its device.
    """

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        state = source.weight.quant_state
        self.register_buffer("packed", source.weight.data.view(torch.uint8))
        self.register_buffer("scales", state.absmax)
        self.register_buffer("scale_scales", state.state2.absmax)
        self.register_buffer("scale_code", state.state2.code)
        self.register_buffer("scale_offset", state.offset)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] → [..., out] in the input's dtype."""
        y = nf4_product(
            self._rows(x),
            self.packed,
            self.scales,
            self.scale_scales,
            self.scale_code,
            self.scale_offset,
            self.out_features,
        )
        return self._finished(y, x)


def freeze(source: nn.Linear, storage: str) -> nn.Module:
    """The layer in its stored form.

    Args:
        source: as loaded; for "nf4" bitsandbytes' Linear4bit.
        storage: "none" (as it is), "fp8", "int8" or "nf4".
    """
    forms = {"fp8": Fp8Linear, "int8": Int8Linear, "nf4": Nf4Linear}
    return forms[storage](source) if storage in forms else source
