"""Whole plans: properties that hold for every machine and every recipe."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.hardware.machine import Gpu, Machine
from pipeline.hardware.planner import Plans, make_plans
from tests.support.machines import (
    CPU_BF16,
    CPU_PLAIN,
    H100X8,
    H200X1,
    QWEN3_14B,
    SMOLLM2,
    T4X2,
    described,
    several,
)
from tests.support.settings import make_params

CHANGES = {
    "plan.sequence_tokens": st.sampled_from([None, 256, 1024, 6144]),
    "plan.gradient_checkpointing": st.sampled_from([None, True, False]),
    "train.rank": st.sampled_from([1, 16, 64]),
    "train.steps": st.sampled_from([None, 7, 5000]),
    "train.epochs": st.sampled_from([0.5, 3.0, 20.0]),
    "train.tokens_per_step": st.sampled_from([64, 1000, 16384, 131072]),
    "train.base_quantization": st.sampled_from(["auto", "none", "nf4"]),
    "train.parallel": st.sampled_from(["auto", "replicas", "sharded"]),
    "budget.hours": st.sampled_from([0.3, 2.0, 20.0]),
    "evaluation.max_new_tokens": st.sampled_from([24, 2048]),
}


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    cpu = {"cores": draw(st.integers(1, 64)), "ram_gib": draw(st.floats(1, 200).map(round)) * 1.0}
    name, capability = draw(
        st.sampled_from([("Tesla T4", (7, 5)), ("NVIDIA A100", (8, 0)), ("Unknown", (9, 0))])
    )
    gpu = Gpu(0, name, draw(st.sampled_from([3.9, 14.5, 39.4, 139.8])), capability)
    return described(several(gpu, draw(st.integers(0, 8))), bf16=draw(st.booleans()), **cpu)


@settings(max_examples=120, deadline=None)
@given(
    machine=machines(),
    shape=st.sampled_from([QWEN3_14B, SMOLLM2]),
    changes=st.fixed_dictionaries({}, optional=CHANGES),
)
def test_a_plan_is_sound_or_refused(machine: Machine, shape: Any, changes: dict[str, Any]) -> None:
    try:
        plans = make_plans(shape, machine, make_params(**changes))
    except UserError:
        return
    training, plan = plans.training["training"], plans.training
    per_pass = training["ranks"] * training["micro_batch_sequences"]
    assert per_pass * training["accumulation"] == training["sequences_per_step"]
    assert training["ranks"] == max(1, len(machine.gpus))
    counted = sum(part["gib"] for part in plan["memory"] if part["counted"])
    assert counted == pytest.approx(plan["memory_needed_gib"], abs=0.02)
    limit = min((gpu.memory_gib for gpu in machine.gpus), default=machine.cpu.ram_gib)
    assert counted <= limit
    assert plans.corpus["sequence_tokens"] == training["sequence_tokens"] <= shape.max_positions
    fixed = changes.get("train.steps", 160) is not None
    assert (training["steps_by_clock"] is None) == fixed == (plans.corpus["token_budget"] is None)
    if not fixed:
        assert plan["time"]["predicted_seconds"] <= plan["time"]["training_seconds"] + 1
    assert 1 <= plans.evaluation["problems"] <= 64
    json.dumps([plan, plans.corpus, plans.evaluation], allow_nan=False)


def text(plans: Plans) -> str:
    return json.dumps([plans.training, plans.corpus, plans.evaluation, plans.evaluation_why])


@pytest.mark.parametrize("machine", [CPU_BF16, CPU_PLAIN, H200X1])
def test_the_same_inputs_give_the_same_bytes(machine: Machine) -> None:
    first, second = (text(make_plans(SMOLLM2, machine, make_params())) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "change",
    [
        {"train.learning_rate": 0.5},
        {"train.warmup_share": 0.5},
        {"train.decay": "cosine"},
        {"train.seed": 9},
        {"train.clip_norm": 9.0},
        {"train.alpha": 99},
        {"select.seed": 5},
        {"prompt.system": "You are terse."},
        {"report.title": "Another"},
    ],
)
def test_what_the_plan_does_not_need_does_not_change_it(change: dict[str, Any]) -> None:
    expected = text(make_plans(SMOLLM2, CPU_BF16, make_params()))
    assert text(make_plans(SMOLLM2, CPU_BF16, make_params(**change))) == expected


def test_an_edit_of_evaluation_does_not_repeat_the_training() -> None:
    plain = make_plans(SMOLLM2, CPU_BF16, make_params())
    fewer = make_plans(SMOLLM2, CPU_BF16, make_params(**{"evaluation.problems": 3}))
    assert fewer.training == plain.training
    assert fewer.evaluation != plain.evaluation


def test_a_longer_budget_does_not_repeat_the_baseline() -> None:
    plain = make_plans(SMOLLM2, CPU_BF16, make_params())
    longer = make_plans(SMOLLM2, CPU_BF16, make_params(**{"budget.hours": 2.0}))
    assert longer.evaluation == plain.evaluation


def test_a_measured_rate_replaces_the_predicted_one() -> None:
    params = make_params(**{"train.steps": None, "plan.training_tokens_per_second": 1000.0})
    plan = make_plans(SMOLLM2, CPU_BF16, params).training
    assert plan["time"]["source"] == "plan.training_tokens_per_second"
    expected = plan["time"]["training_seconds"] * 1000 // 1024
    assert plan["training"]["steps_by_clock"] == expected


def test_every_decision_has_its_sentence() -> None:
    params = make_params(**{"budget.hours": 20.0})
    why = " ".join(make_plans(QWEN3_14B, T4X2, params).training["why"])
    topics = "Adapter Device Precision Storage Sequences Recomputation Batch Memory Time".split()
    assert [topic for topic in topics if topic not in why] == []


def test_threads_are_shared_by_the_ranks() -> None:
    params = make_params(**{"budget.hours": 20.0})
    assert make_plans(QWEN3_14B, H100X8, params).training["training"]["threads"] == 8
    assert make_plans(SMOLLM2, CPU_PLAIN, params).training["training"]["threads"] == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train.rank": 65}, r"verify\.max_rank 64.*at most 64"),
        ({"train.rank": 64, "verify.max_elements": 200_000_000}, "at most 49"),
        ({"train.target_modules": ["lm_head"]}, "lm_head"),
    ],
)
def test_what_verify_would_refuse_is_refused_before_training(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        make_plans(QWEN3_14B, H200X1, make_params(**{"budget.hours": 20.0, **change}))


def test_a_model_of_another_family_is_refused() -> None:
    with pytest.raises(UserError, match=r"'mamba'.*llama, mistral, qwen2, qwen3"):
        make_plans(replace(SMOLLM2, model_type="mamba"), CPU_BF16, make_params())
