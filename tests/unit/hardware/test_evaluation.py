"""The evaluation plan: memory, time, and independence of the recipe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import ModelShape
from pipeline.hardware.choices import choose_devices
from pipeline.hardware.clock import split_budget
from pipeline.hardware.evaluation import plan_evaluation
from pipeline.hardware.machine import Machine
from tests.support.machines import CPU_BF16, CPU_PLAIN, H200X1, QWEN3_14B, SMOLLM2, T4X2
from tests.support.settings import make_params


def evaluation_on(
    machine: Machine, shape: ModelShape = QWEN3_14B, **overrides: Any
) -> tuple[dict[str, Any], list[str]]:
    params = make_params(**overrides)
    devices = choose_devices(params, machine, [])
    return plan_evaluation(shape, params, devices, machine, split_budget(params, shape))


def test_the_demonstration_keeps_all_its_problems() -> None:
    settings, why = evaluation_on(CPU_BF16, SMOLLM2)
    assert settings == {
        "problems": 64,
        "samples_per_problem": 3,
        "max_new_tokens": 128,
        "batch_sequences": 64,
        "device": "cpu",
        "dtype": "bfloat16",
        "quantization": "none",
        "threads": 2,
    }
    assert not any("lowered" in sentence for sentence in why)


def test_problems_are_lowered_to_the_share_and_said() -> None:
    long = {"budget.hours": 20.0, "evaluation.max_new_tokens": 16384}
    settings, why = evaluation_on(H200X1, **long)
    assert 10 < settings["problems"] < 64
    assert any("lowered from evaluation.problems = 64" in sentence for sentence in why)
    more, _ = evaluation_on(H200X1, **{**long, "budget.evaluation_share": 0.6})
    assert more["problems"] == 64


ASKED_TWICE = {
    "prompt.variants": [
        {"name": "bare", "weight": 1, "system": None, "instruction": "", "thinking": "template"}
    ]
}


def test_variants_multiply_what_is_asked_and_shrink_the_panel() -> None:
    tight = {"budget.hours": 20.0, "evaluation.max_new_tokens": 16384}
    alone, said = evaluation_on(H200X1, **tight)
    twice, why = evaluation_on(H200X1, **tight, **ASKED_TWICE)
    # Two prompts have what one has in half the time.
    half = {"budget.evaluation_share": make_params().budget.evaluation_share / 2}
    assert twice == evaluation_on(H200X1, **tight, **half)[0]
    assert 1 < twice["problems"] < alone["problems"]
    assert any(f"Panel: {twice['problems']} problems × 2 prompts × 3 replies" in one for one in why)
    assert any("or fewer prompt.variants leave room for more" in one for one in why)
    assert not any("prompt" in one for one in said)


def test_variants_take_twice_the_time_where_there_is_enough() -> None:
    settings, why = evaluation_on(CPU_BF16, SMOLLM2, **ASKED_TWICE)
    assert settings == evaluation_on(CPU_BF16, SMOLLM2)[0]
    assert not any("lowered" in sentence for sentence in why)


def test_one_problem_is_always_asked_and_the_risk_is_said() -> None:
    settings, why = evaluation_on(CPU_BF16, SMOLLM2, **{"budget.evaluation_share": 0.0})
    assert settings["problems"] == 1
    assert "stops at its share" in why[-1]


@pytest.mark.parametrize(
    ("machine", "shape", "dtype", "storage"),
    [
        (H200X1, QWEN3_14B, "bfloat16", "none"),
        (T4X2, QWEN3_14B, "float16", "nf4"),
        (T4X2, SMOLLM2, "float16", "none"),
        (CPU_PLAIN, SMOLLM2, "float32", "none"),
    ],
)
def test_type_and_storage_follow_the_device(
    machine: Machine, shape: ModelShape, dtype: str, storage: str
) -> None:
    settings, _ = evaluation_on(machine, shape)
    assert (settings["dtype"], settings["quantization"]) == (dtype, storage)


def test_batches_shrink_with_the_length_of_replies() -> None:
    short, _ = evaluation_on(T4X2, **{"evaluation.max_new_tokens": 512})
    long, _ = evaluation_on(T4X2, **{"evaluation.max_new_tokens": 8192})
    assert 1 <= long["batch_sequences"] < short["batch_sequences"]


def test_a_given_batch_is_kept_or_refused() -> None:
    settings, _ = evaluation_on(CPU_BF16, SMOLLM2, **{"evaluation.batch_sequences": 5})
    assert settings["batch_sequences"] == 5
    with pytest.raises(UserError, match=r"Set it to at most \d+"):
        evaluation_on(T4X2, **{"evaluation.batch_sequences": 50, "evaluation.max_new_tokens": 4096})


def test_replies_beyond_positions_or_memory_are_refused() -> None:
    with pytest.raises(UserError, match="8192 positions"):
        evaluation_on(CPU_BF16, SMOLLM2, **{"evaluation.max_new_tokens": 8192})
    with pytest.raises(UserError, match=r"Lower evaluation\.max_new_tokens"):
        evaluation_on(T4X2, **{"evaluation.max_new_tokens": 32768})
    with pytest.raises(UserError, match="more memory"):
        evaluation_on(replace(T4X2, bitsandbytes=None))


def test_the_recipe_does_not_matter() -> None:
    recipe = {
        "train.rank": 8,
        "train.learning_rate": 0.5,
        "train.base_quantization": "nf4",
        "train.precision": "float16",
        "train.tokens_per_step": 4096,
        "plan.sequence_tokens": 2048,
    }
    assert evaluation_on(H200X1, **recipe) == evaluation_on(H200X1)
