"""Every preset is a valid params file and can be planned on its machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.base.fingerprint import ModelShape
from pipeline.base.params import load_params
from pipeline.hardware.machine import Machine
from pipeline.hardware.planner import Plans, make_plans
from tests.support.machines import CPU_BF16, CPU_PLAIN, H100X8, H200X1, QWEN3_14B, SMOLLM2, T4X2

PRESETS = Path(__file__).resolve().parents[3] / "presets"

PLANNED: list[tuple[str, ModelShape, Machine]] = [
    ("demo", SMOLLM2, CPU_BF16),
    ("quick", SMOLLM2, CPU_PLAIN),
    ("gsm8k-cpu", SMOLLM2, CPU_BF16),
    ("qwen3-14b-h200x1", QWEN3_14B, H200X1),
    ("qwen3-14b-t4x2", QWEN3_14B, T4X2),
    ("qwen3-14b-h100x8", QWEN3_14B, H100X8),
]


def planned(name: str) -> Plans:
    shape, machine = next((s, m) for preset, s, m in PLANNED if preset == name)
    return make_plans(shape, machine, load_params(PRESETS / f"{name}.yaml"))


def test_no_preset_is_left_untested() -> None:
    assert {path.stem for path in PRESETS.glob("*.yaml")} == {name for name, _, _ in PLANNED}


@pytest.mark.parametrize("name", [name for name, _, _ in PLANNED])
def test_a_preset_fits_its_machine_and_its_time(name: str) -> None:
    plans = planned(name)
    params = load_params(PRESETS / f"{name}.yaml")
    time = plans.training["time"]
    assert time["predicted_seconds"] <= time["training_seconds"]
    assert plans.evaluation["problems"] == params.evaluation.problems
    batch = plans.training["training"]
    assert batch["sequences_per_step"] * batch["sequence_tokens"] == params.train.tokens_per_step


def test_two_t4_cards_train_in_nf4_and_float16() -> None:
    training = planned("qwen3-14b-t4x2").training["training"]
    assert (training["quantization"], training["compute_dtype"]) == ("nf4", "float16")
    assert (training["ranks"], training["sequence_tokens"]) == (2, 12288)
    assert training["gradient_checkpointing"]
    assert training["steps_by_clock"] > 500


@pytest.mark.parametrize("name", ["qwen3-14b-h200x1", "qwen3-14b-h100x8"])
def test_large_cards_train_long_sequences_unquantised(name: str) -> None:
    training = planned(name).training["training"]
    assert (training["quantization"], training["sequence_tokens"]) == ("none", 16384)


def test_the_quick_one_is_quick() -> None:
    plan = planned("quick").training
    assert plan["time"]["predicted_seconds"] < 20
