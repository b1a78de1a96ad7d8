"""Every optimizer on a GPU: resumed runs end with the same bits, state lies where it should."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.learning.optimizers import AdapterOptimizer, make_optimizer
from tests.unit.learning.test_optimizers import KINDS, LAYER, recipe

pytestmark = pytest.mark.gpu
SHAPES = {
    f"{LAYER}.lora_A.weight": (64, 2048),
    f"{LAYER}.lora_B.weight": (3072, 64),
    f"{LAYER}.lora_magnitude_vector": (3072,),
}
ADALORA_SHAPES = {
    f"{LAYER}.lora_A": (16, 512),
    f"{LAYER}.lora_B": (768, 16),
    f"{LAYER}.lora_E": (16, 1),
}
STEPS = 10
GPU = torch.device("cuda:0")


def made(kind: str, seed: int) -> AdapterOptimizer:
    params = recipe(**KINDS[kind])
    shapes = ADALORA_SHAPES if params.method == "adalora" else SHAPES
    generator = torch.Generator().manual_seed(seed)
    named = {
        name: torch.nn.Parameter(torch.randn(shape, generator=generator).to(GPU))
        for name, shape in sorted(shapes.items())
    }
    return make_optimizer(named, params, GPU)


def take_steps(optimizer: AdapterOptimizer, first: int, last: int) -> None:
    for step in range(first, last):
        generator = torch.Generator().manual_seed(1000 + step)
        optimizer.zero_grad()
        for parameter in optimizer.named.values():
            noise = torch.randn(parameter.shape, generator=generator).to(GPU)
            parameter.grad = 0.1 * parameter.detach() + noise
        optimizer.add_gradients()
        optimizer.set_rate(0.01 * (1 - step / STEPS))
        optimizer.progress = (step + 1) / STEPS
        optimizer.step()


@pytest.mark.parametrize("kind", KINDS)
def test_a_resume_changes_no_bit(kind: str, tmp_path: Path) -> None:
    whole, first, second = made(kind, 0), made(kind, 0), made(kind, 9)
    take_steps(whole, 0, STEPS)
    take_steps(first, 0, 5)
    with first.averages_in_place():
        adapter = {name: p.detach().cpu() for name, p in first.named.items()}
    save_file(first.tensors(), tmp_path / "rest.safetensors")
    with torch.no_grad():
        for name, parameter in second.named.items():
            parameter.copy_(adapter[name])
    second.load(load_file(tmp_path / "rest.safetensors"), 5)
    take_steps(second, 5, STEPS)
    for name, value in whole.named.items():
        assert torch.equal(second.named[name], value), name


def test_the_8_bit_moments_are_small_and_on_the_card() -> None:
    optimizer = made("8 bit", 0)
    take_steps(optimizer, 0, 1)
    (part,) = optimizer.parts
    state = part.state[optimizer.named[f"{LAYER}.lora_A.weight"]]
    assert state["state1"].dtype == torch.uint8
    assert state["state1"].is_cuda


def test_adamw_is_fused() -> None:
    (part,) = made("adamw", 0).parts
    assert part.defaults["fused"] is True
