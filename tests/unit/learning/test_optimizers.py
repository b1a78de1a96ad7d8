"""Every optimizer goes on with the same bits after a resume, and steps as its source says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.base.params import TrainParams
from pipeline.learning.muon import orthogonal
from pipeline.learning.optimizers import AdapterOptimizer, make_optimizer
from tests.support.settings import make_params

CPU = torch.device("cpu")
LAYER = "base_model.model.model.layers.0.q_proj"
SHAPES = {
    f"{LAYER}.lora_A.weight": (64, 96),
    f"{LAYER}.lora_B.weight": (80, 64),
    f"{LAYER}.lora_magnitude_vector": (80,),
}
ADALORA_SHAPES = {
    f"{LAYER}.lora_A": (6, 24),
    f"{LAYER}.lora_B": (20, 6),
    f"{LAYER}.lora_E": (6, 1),
}
KINDS = {
    "adamw": {},
    "8 bit": {"optimizer": "adamw-8bit"},
    "8 bit, paged": {"optimizer": "adamw-8bit-paged"},
    "muon": {"optimizer": "muon"},
    "schedule-free": {"optimizer": "schedule-free"},
    "decay": {"weight_decay": 0.1},
    "schedule-free, decay": {"optimizer": "schedule-free", "weight_decay": 0.1},
    "LoRA+": {"lora_plus_ratio": 4.0},
    "schedule-free LoRA+": {"optimizer": "schedule-free", "lora_plus_ratio": 4.0},
    "average": {"ema_decay": 0.9},
    "muon, average, LoRA+": {"optimizer": "muon", "ema_decay": 0.99, "lora_plus_ratio": 2.0},
    "adalora": {"method": "adalora"},
    "adalora, muon": {"method": "adalora", "optimizer": "muon"},
}
STEPS = 12
STOPS = (1, 5, 9, 11)
"""With AdaLoRA: before the first mask, while they change, and after the last choice."""

Masters = dict[str, torch.nn.Parameter]


def recipe(**changes: object) -> TrainParams:
    train = make_params(**{"train.learning_rate": 0.01}).train
    return train.model_copy(update=changes)


def masters(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> Masters:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.nn.Parameter(torch.randn(shape, generator=generator))
        for name, shape in sorted(shapes.items())
    }


def take_steps(optimizer: AdapterOptimizer, first: int, last: int) -> None:
    """Steps with gradients that depend on the step and on the weights."""
    for step in range(first, last):
        generator = torch.Generator().manual_seed(1000 + step)
        optimizer.zero_grad()
        for parameter in optimizer.named.values():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.grad = 0.1 * parameter.detach() + noise
        optimizer.add_gradients()
        optimizer.set_rate(0.01 * (1 - step / STEPS))
        optimizer.progress = (step + 1) / STEPS
        optimizer.step()


def save(optimizer: AdapterOptimizer, folder: Path) -> None:
    with optimizer.averages_in_place():
        adapter = {name: p.detach().clone() for name, p in optimizer.named.items()}
    save_file(adapter, folder / "adapter.safetensors")
    save_file(optimizer.tensors(), folder / "rest.safetensors")


def resumed(params: TrainParams, folder: Path, steps: int) -> AdapterOptimizer:
    adapter = load_file(folder / "adapter.safetensors")
    named = masters({name: tuple(value.shape) for name, value in adapter.items()}, seed=9)
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(adapter[name])
    optimizer = make_optimizer(named, params, CPU)
    optimizer.load(load_file(folder / "rest.safetensors"), steps)
    return optimizer


def published(optimizer: AdapterOptimizer) -> dict[str, torch.Tensor]:
    with optimizer.averages_in_place():
        return {name: p.detach().clone() for name, p in optimizer.named.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_resume_at_any_step_changes_no_bit(kind: str, tmp_path: Path) -> None:
    params = recipe(**KINDS[kind])
    shapes = ADALORA_SHAPES if params.method == "adalora" else SHAPES
    whole = make_optimizer(masters(shapes), params, CPU)
    take_steps(whole, 0, STEPS)
    for stop in STOPS:
        first = make_optimizer(masters(shapes), params, CPU)
        take_steps(first, 0, stop)
        save(first, tmp_path)
        second = resumed(params, tmp_path, stop)
        take_steps(second, stop, STEPS)
        expected, found = published(whole), published(second)
        for name, value in whole.named.items():
            assert torch.equal(second.named[name], value), (stop, name)
            assert torch.equal(found[name], expected[name]), (stop, name)


@pytest.mark.parametrize("kind", KINDS)
def test_the_disk_that_a_save_takes_is_not_underrated(kind: str, tmp_path: Path) -> None:
    params = recipe(**KINDS[kind])
    shapes = ADALORA_SHAPES if params.method == "adalora" else SHAPES
    optimizer = make_optimizer(masters(shapes), params, CPU)
    take_steps(optimizer, 0, 2)
    elements = sum(p.numel() for p in optimizer.named.values())
    held = sum(t.numel() * t.element_size() for t in optimizer.tensors().values())
    # Tensors of fewer than 4,096 elements, and each tensor's constants, come on top in 8 bits.
    assert held <= optimizer.bytes_per_element * elements + 1024


def test_adamw_is_that_of_torch() -> None:
    params = recipe(weight_decay=0.1)
    ours, theirs = masters(SHAPES), masters(SHAPES)
    take_steps(make_optimizer(ours, params, CPU), 0, 5)
    reference = torch.optim.AdamW(
        [
            {"params": [p for n, p in theirs.items() if "magnitude" not in n]},
            {"params": [p for n, p in theirs.items() if "magnitude" in n], "weight_decay": 0.0},
        ],
        betas=(params.beta1, params.beta2),
        weight_decay=0.1,
    )
    for step in range(5):
        generator = torch.Generator().manual_seed(1000 + step)
        for parameter in theirs.values():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.grad = 0.1 * parameter.detach() + noise
        for group in reference.param_groups:
            group["lr"] = 0.01 * (1 - step / STEPS)
        reference.step()
    for name, parameter in theirs.items():
        assert torch.equal(ours[name], parameter)


def test_magnitudes_and_factors_are_not_decayed() -> None:
    shapes = {**SHAPES, f"{LAYER}.ia3_l": (80, 1)}
    optimizer = make_optimizer(masters(shapes), recipe(weight_decay=0.5), CPU)
    spared = {
        name
        for name, parameter in optimizer.named.items()
        for group in optimizer.param_groups
        if group["weight_decay"] == 0 and any(p is parameter for p in group["params"])
    }
    assert spared == {f"{LAYER}.ia3_l", f"{LAYER}.lora_magnitude_vector"}


@pytest.mark.parametrize("kind", ["adamw", "muon", "schedule-free"])
def test_lora_plus_moves_b_by_its_ratio(kind: str) -> None:
    def first_move(ratio: float) -> dict[str, torch.Tensor]:
        named = masters(SHAPES)
        before = {name: p.detach().clone() for name, p in named.items()}
        params = recipe(optimizer=kind, lora_plus_ratio=ratio)
        take_steps(make_optimizer(named, params, CPU), 0, 1)
        return {name: p.detach() - before[name] for name, p in named.items()}

    plain, faster = first_move(1.0), first_move(8.0)
    for name, move in plain.items():
        scale = 8.0 if ".lora_B" in name else 1.0
        torch.testing.assert_close(faster[name], scale * move, atol=2e-6, rtol=1e-3)


def test_muon_takes_the_matrices_and_adamw_the_rest() -> None:
    optimizer = make_optimizer(masters(SHAPES), recipe(optimizer="muon"), CPU)
    muon, adamw = optimizer.parts
    assert [p.dim() for group in muon.param_groups for p in group["params"]] == [2, 2]
    assert [p.dim() for group in adamw.param_groups for p in group["params"]] == [1]


@pytest.mark.parametrize("shape", [(4, 96), (96, 4), (16, 16)])
def test_muon_makes_singular_values_alike(shape: tuple[int, int]) -> None:
    matrices = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    matrices[1] *= 1e-4
    for before, after in zip(matrices, orthogonal(matrices), strict=True):
        values = torch.linalg.svdvals(after)
        assert 0.3 < float(values.min()) <= float(values.max()) < 1.3
        left, _, right = torch.linalg.svd(before, full_matrices=False)
        cosine = (after * (left @ right)).sum() / (after.norm() * (left @ right).norm())
        assert float(cosine) > 0.95


def test_muon_leaves_a_matrix_without_gradient_alone() -> None:
    assert torch.equal(orthogonal(torch.zeros(1, 4, 8)), torch.zeros(1, 4, 8))


def test_a_muon_step_is_as_large_as_one_of_adamw() -> None:
    named = {f"{LAYER}.lora_A.weight": torch.nn.Parameter(torch.zeros(16, 256))}
    optimizer = make_optimizer(named, recipe(optimizer="muon"), CPU)
    take_steps(optimizer, 0, 1)
    size = float(next(iter(named.values())).detach().pow(2).mean().sqrt())
    assert size / 0.01 == pytest.approx(0.2, rel=0.3)


def test_schedule_free_follows_its_algorithm() -> None:
    """The three sequences of arXiv 2405.15682, algorithm 1, written out in float64."""
    params = recipe(optimizer="schedule-free", weight_decay=0.1)
    name = f"{LAYER}.lora_A.weight"
    named = masters({name: (3, 5)})
    z = named[name].detach().double()
    x, y, squares, weight = z.clone(), z.clone(), torch.zeros_like(z), 0.0
    optimizer = make_optimizer(named, params, CPU)
    for step in range(6):
        noise = torch.randn((3, 5), generator=torch.Generator().manual_seed(1000 + step))
        gradient, rate = 0.1 * y + noise.double(), 0.01 * (1 - step / STEPS)
        squares = params.beta2 * squares + (1 - params.beta2) * gradient**2
        size = (squares / (1 - params.beta2 ** (step + 1))).sqrt() + 1e-8
        z = z - rate * gradient / size - rate * 0.1 * y
        weight += rate**2
        x = (1 - rate**2 / weight) * x + rate**2 / weight * z
        y = (1 - params.beta1) * z + params.beta1 * x
    take_steps(optimizer, 0, 6)
    torch.testing.assert_close(named[name].detach().double(), y, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(published(optimizer)[name].double(), x, atol=1e-6, rtol=1e-5)


def test_the_average_is_published_and_the_masters_go_on() -> None:
    named = masters(SHAPES)
    optimizer = make_optimizer(named, recipe(ema_decay=0.9), CPU)
    shadow = {name: p.detach().clone() for name, p in named.items()}
    for step in range(8):
        take_steps(optimizer, step, step + 1)
        kept = min(0.9, (2 + step) / (11 + step))
        shadow = {n: kept * s + (1 - kept) * named[n].detach() for n, s in shadow.items()}
    before = {name: p.detach().clone() for name, p in named.items()}
    for name, average in published(optimizer).items():
        torch.testing.assert_close(average, shadow[name])
        assert not torch.equal(average, before[name])
        assert torch.equal(named[name], before[name])


def test_averages_give_the_masters_back_when_saving_fails() -> None:
    optimizer = make_optimizer(masters(SHAPES), recipe(ema_decay=0.9), CPU)
    take_steps(optimizer, 0, 3)
    before = {name: p.detach().clone() for name, p in optimizer.named.items()}
    with pytest.raises(OSError, match="full"), optimizer.averages_in_place():
        raise OSError("disk full")
    assert all(torch.equal(p, before[name]) for name, p in optimizer.named.items())


def test_without_averaging_the_masters_are_published() -> None:
    optimizer = make_optimizer(masters(SHAPES), recipe(), CPU)
    take_steps(optimizer, 0, 2)
    assert all(torch.equal(p, published(optimizer)[n]) for n, p in optimizer.named.items())


def test_a_missing_tensor_is_an_error_not_a_fresh_start() -> None:
    optimizer = make_optimizer(masters(SHAPES), recipe(), CPU)
    take_steps(optimizer, 0, 2)
    tensors = optimizer.tensors()
    name = f"{LAYER}.lora_A.weight.exp_avg"
    del tensors[name]
    with pytest.raises(KeyError, match="exp_avg"):
        make_optimizer(masters(SHAPES), recipe(), CPU).load(tensors, 2)


def test_the_8_bit_state_is_small() -> None:
    shapes = {f"{LAYER}.lora_A.weight": (64, 1024)}
    optimizer = make_optimizer(masters(shapes), recipe(optimizer="adamw-8bit"), CPU)
    take_steps(optimizer, 0, 1)
    held = sum(t.numel() * t.element_size() for t in optimizer.tensors().values())
    assert held / math.prod((64, 1024)) < 2.1
