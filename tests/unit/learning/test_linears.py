"""Our LoRA layer against PEFT's, and stored forms of the frozen layer against the plain one."""

from __future__ import annotations

from typing import Any

import bitsandbytes
import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from pipeline.learning.frozen import Fp8Linear, Int8Linear, Nf4Linear, freeze, to_fp8
from pipeline.learning.linears import LoraLinear


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(24, 12, bias=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x)
        return result


@pytest.mark.parametrize("rslora", [False, True])
def test_equals_pefts_layer_forward_and_backward(rslora: bool) -> None:
    toy = Toy().requires_grad_(False)
    mine = LoraLinear(toy.inner, rank=4, alpha=6, rslora=rslora, dropout=0.0)
    mine.begin(torch.Generator().manual_seed(1))
    nn.init.normal_(mine.lora_B)
    config = LoraConfig(r=4, lora_alpha=6, use_rslora=rslora, target_modules=["inner"])
    theirs: Any = get_peft_model(Toy(), config)
    layer = theirs.base_model.model.inner
    layer.base_layer.load_state_dict(toy.inner.state_dict())
    layer.lora_A.default.weight.data.copy_(mine.lora_A)
    layer.lora_B.default.weight.data.copy_(mine.lora_B)
    x = torch.randn(2, 5, 24, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    mine(x).square().sum().backward()
    theirs(y).square().sum().backward()
    torch.testing.assert_close(mine(x), theirs(y))
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(
        mine.lora_A.grad, layer.lora_A.default.weight.grad, atol=1e-4, rtol=1e-5
    )
    torch.testing.assert_close(
        mine.lora_B.grad, layer.lora_B.default.weight.grad, atol=1e-4, rtol=1e-5
    )


def test_begins_as_peft_does_and_changes_nothing_at_first() -> None:
    layer = LoraLinear(nn.Linear(400, 8), rank=16, alpha=16, rslora=False, dropout=0.0)
    layer.begin(torch.Generator().manual_seed(0))
    assert float(layer.lora_A.detach().abs().max()) <= 400**-0.5
    assert float(layer.lora_A.detach().std()) == pytest.approx((1 / 400 / 3) ** 0.5, rel=0.05)
    x = torch.randn(3, 400)
    assert torch.equal(layer(x), layer.frozen(x))


def test_masters_stay_fp32_under_a_16_bit_base() -> None:
    layer = LoraLinear(nn.Linear(8, 8).bfloat16(), rank=2, alpha=2, rslora=False, dropout=0.0)
    layer.begin(torch.Generator().manual_seed(0))
    nn.init.normal_(layer.lora_B)
    out = layer(torch.randn(3, 8, dtype=torch.bfloat16))
    out.sum().backward()
    assert out.dtype is torch.bfloat16
    for master in (layer.lora_A, layer.lora_B):
        assert master.dtype is torch.float32
        assert master.grad is not None
        assert master.grad.dtype is torch.float32


def test_dropout_is_for_training_and_for_the_update_alone() -> None:
    layer = LoraLinear(nn.Linear(64, 8), rank=4, alpha=4, rslora=False, dropout=0.5)
    layer.begin(torch.Generator().manual_seed(0))
    nn.init.normal_(layer.lora_B)
    x = torch.randn(3, 64)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    nn.init.zeros_(layer.lora_B)
    assert torch.equal(layer.train()(x), layer.frozen(x))


def _through(layer: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and the gradient to the input of a sum of squares."""
    x = x.detach().clone().requires_grad_()
    out = layer(x)
    out.float().square().sum().backward()
    assert x.grad is not None
    return out.detach(), x.grad


def _relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).float().norm() / wanted.float().norm())


def test_int8_is_the_rounded_weight_in_both_directions() -> None:
    source = nn.Linear(64, 48)
    stored = freeze(source, "int8")
    assert isinstance(stored, Int8Linear)
    rounded = nn.Linear(64, 48)
    rounded.weight.data = stored.weight.float() * stored.scales
    rounded.bias.data = source.bias.data
    x = torch.randn(2, 7, 64)
    for mine, exact in zip(_through(stored, x), _through(rounded, x), strict=True):
        torch.testing.assert_close(mine, exact, atol=1e-4, rtol=1e-4)
    assert _relative(_through(stored, x)[0], _through(source, x)[0]) < 0.01


def test_nf4_is_bitsandbytes_own_weight_in_both_directions() -> None:
    packed = bitsandbytes.nn.Linear4bit(
        128, 64, bias=False, compute_dtype=torch.float32, compress_statistics=True, quant_type="nf4"
    )
    packed.weight = bitsandbytes.nn.Params4bit(
        torch.randn(64, 128), requires_grad=False, quant_type="nf4", compress_statistics=True
    )
    packed = packed.to("cpu")
    stored = freeze(packed, "nf4")
    assert isinstance(stored, Nf4Linear)
    plain = nn.Linear(128, 64, bias=False)
    plain.weight.data = bitsandbytes.functional.dequantize_4bit(
        packed.weight.data, packed.weight.quant_state
    ).float()
    x = torch.randn(3, 128)
    for mine, exact in zip(_through(stored, x), _through(plain, x), strict=True):
        torch.testing.assert_close(mine, exact, atol=1e-3, rtol=1e-3)


def test_unpacked_weights_are_not_kept_by_a_compiled_layer() -> None:
    """A compiler that sees through the product keeps the whole weight for its backward pass."""
    stored = freeze(nn.Linear(256, 256, bias=False), "int8")
    kept: list[int] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel() if tensor.is_floating_point() else 0)
        return tensor

    whole = torch.compile(stored, backend="aot_eager")
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        whole(torch.randn(2, 256, requires_grad=True)).sum().backward()
    assert max(kept, default=0) < 256 * 256


def test_fp8_rows_use_the_whole_range_and_round_little() -> None:
    values = torch.randn(16, 512) * torch.logspace(-6, 6, 16)[:, None]
    values[3] = 0
    stored, scales = to_fp8(values)
    back = stored.float() * scales
    assert torch.isfinite(back).all()
    alive = [row for row in range(16) if row != 3]
    assert float(stored.float()[alive].abs().amax(1).min()) == 448
    for row in alive:
        assert _relative(back[row], values[row]) < 0.04


def test_fp8_stores_one_copy_for_each_direction() -> None:
    source = nn.Linear(32, 16, bias=False)
    stored = freeze(source, "fp8")
    assert isinstance(stored, Fp8Linear)
    forward = stored.forward_weight.float() * stored.forward_scales.t()
    backward = stored.backward_weight.float() * stored.backward_scales.t()
    assert _relative(forward, source.weight.detach()) < 0.04
    assert _relative(backward, source.weight.detach().t()) < 0.04
