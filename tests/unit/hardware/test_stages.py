"""Plans with a curriculum: constant steps, the worst stage's memory, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.base.curriculum import Stage
from pipeline.base.errors import UserError
from pipeline.hardware.choices import choose_devices, choose_dtype
from pipeline.hardware.fit import Fitter, choose_fit
from pipeline.hardware.machine import Machine
from pipeline.hardware.memory import needed_gib, training_parts
from pipeline.hardware.planner import Plans, make_plans
from pipeline.hardware.speed import training_rate
from pipeline.hardware.stages import longest_stage, setting_at, stages_of
from tests.support.machines import CPU_BF16, H100X8, H200X1, QWEN3_14B, SMOLLM2, described, several
from tests.support.settings import make_params

EARLY, LATE = {"easy": 0.5, "hard": 0.5}, {"hard": 1.0}
STAGES: list[dict[str, Any]] = [
    {"sequence_tokens": 2048, "share": 7, "tiers": EARLY},
    {"sequence_tokens": 4096, "share": 7, "tiers": LATE},
    {"sequence_tokens": 8192, "share": 16, "tiers": None},
]
JOB: dict[str, Any] = {
    "budget.hours": 20.0,
    "plan.sequence_tokens": None,
    "train.tokens_per_step": 262_144,
    "train.steps": 3000,
    "train.rank": 16,
    "curriculum.bands": [2048, 4096, 8192, 16384],
    "curriculum.stages": STAGES,
}


def planned(machine: Machine = H100X8, **changes: Any) -> Plans:
    return make_plans(QWEN3_14B, machine, make_params(**{**JOB, **changes}))


def test_stages_of_a_plan() -> None:
    plans = planned(**{"plan.micro_batch_sequences": 1})
    stages = plans.training["training"]["stages"]
    assert [one["steps"] for one in stages] == [700, 700, 1600]
    assert [
        (one["micro_batch_sequences"], one["accumulation"], one["sequences_per_step"])
        for one in stages
    ] == [(4, 4, 128), (2, 4, 64), (1, 4, 32)]
    assert [one["tiers"] for one in stages] == [EARLY, LATE, None]
    assert [one["tokens"] for one in stages] == [steps * 262_144 for steps in (700, 700, 1600)]
    training = plans.training["training"]
    assert (training["sequence_tokens"], training["sequences_per_step"]) == (8192, 32)
    assert (training["micro_batch_sequences"], training["accumulation"]) == (1, 4)
    assert plans.corpus["sequence_tokens"] == 8192
    assert plans.corpus["bands"] == [2048, 4096, 8192]
    assert [one["sequence_tokens"] for one in plans.corpus["stages"]] == [2048, 4096, 8192]
    (sentence,) = [text for text in plans.training["why"] if text.startswith("Curriculum")]
    assert "3 stages with 262,144 tokens a step and 8,192 a forward pass at each" in sentence
    assert "700 steps of 128 × 2,048 tokens (4 × 4 × 8)" in sentence


@pytest.mark.parametrize("cards", [1, 2, 3, 5, 8])
def test_a_step_has_the_same_tokens_at_every_stage_and_number_of_cards(cards: int) -> None:
    machine = described(several(H200X1.gpus[0], cards), cores=64, ram_gib=500.0)
    plan = planned(machine).training
    rows, training = plan["training"]["stages"], plan["training"]
    tokens = training["sequence_tokens"] * training["sequences_per_step"]
    assert {row["sequence_tokens"] * row["sequences_per_step"] for row in rows} == {tokens}
    assert {row["accumulation"] for row in rows} == {training["accumulation"]}
    for row in rows:
        per_pass = row["micro_batch_sequences"] * cards
        assert per_pass * row["accumulation"] == row["sequences_per_step"]
    batch = next(text for text in plan["why"] if text.startswith("Batch"))
    rounded = {3: 270_336, 5: 286_720}
    assert tokens == rounded.get(cards, 262_144)
    assert ("every rank takes as many" in batch) == (cards in rounded)


def test_no_stage_needs_more_memory_than_the_longest() -> None:
    params = make_params(**JOB)
    devices = choose_devices(params, H200X1, [])
    fitter = Fitter(QWEN3_14B, params, devices, choose_dtype(params, devices, []))
    setting = choose_fit(fitter, ["none"])[0].setting
    settings = [setting_at(setting, one) for one in stages_of(params, setting.sequence_tokens)]
    assert [one.sequence_tokens for one in settings] == [2048, 4096, 8192]
    assert {one.tokens for one in settings} == {setting.tokens}
    needs = [needed_gib(training_parts(QWEN3_14B, one)) for one in settings]
    assert max(needs) <= fitter.need(setting)


def test_the_clocks_steps_follow_the_mean_of_the_stages() -> None:
    plan = planned(**{"train.steps": None}).training
    rate, steps = plan["time"]["tokens_per_second"], plan["training"]["steps_by_clock"]
    params = make_params(**JOB)
    devices = choose_devices(params, H100X8, [])
    fitter = Fitter(QWEN3_14B, params, devices, choose_dtype(params, devices, []))
    setting = choose_fit(fitter, ["none"])[0].setting
    rates = [
        training_rate(QWEN3_14B, H100X8, setting_at(setting, Stage(length, 1.0))).tokens_per_second
        for length in (2048, 4096, 8192)
    ]
    assert rates[0] > rates[1] > rates[2]
    seconds = sum(part / one for part, one in zip((7 / 30, 7 / 30, 16 / 30), rates, strict=True))
    assert rate == pytest.approx(1 / seconds, rel=1e-3)
    assert sum(one["steps"] for one in plan["training"]["stages"]) == steps
    assert steps * 262_144 / rate == pytest.approx(plan["time"]["training_seconds"], rel=0.01)


def test_without_a_curriculum_there_is_one_stage() -> None:
    plans = make_plans(SMOLLM2, CPU_BF16, make_params())
    (stage,) = plans.training["training"]["stages"]
    assert (stage["sequence_tokens"], stage["steps"], stage["tiers"]) == (512, 160, None)
    assert not [text for text in plans.training["why"] if text.startswith("Curriculum")]
    assert stages_of(make_params(), 512) == [Stage(512, 1.0)]
    assert longest_stage(make_params()) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"curriculum.bands": [2048, 3072, 8192]}, "3072 does not follow 2048"),
        ({"curriculum.bands": [4096, 2048]}, "2048 does not follow 4096"),
        ({"curriculum.bands": [2048, 2048]}, "2048 does not follow 2048"),
        ({"curriculum.bands": [4096, 8192]}, "stage 1 has sequences of 2048 tokens"),
        ({"plan.sequence_tokens": 4096}, "4096 is not the longest of curriculum.stages, 8192"),
        (
            {"curriculum.stages": [{"sequence_tokens": 2048, "share": 1, "tiers": {"easy": -1}}]},
            "stage 1 has the tiers",
        ),
        (
            {"curriculum.stages": [{"sequence_tokens": 2048, "share": 1, "tiers": {"easy": 0}}]},
            "stage 1 has the tiers",
        ),
        (
            {"curriculum.stages": [{"sequence_tokens": 2048, "share": 1, "tiers": {}}]},
            "stage 1 has the tiers",
        ),
    ],
)
def test_contradictions_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        planned(**change)


def test_the_length_of_the_longest_stage_may_be_said_twice() -> None:
    plan = planned(**{"plan.sequence_tokens": 8192}).training
    assert plan["training"]["sequence_tokens"] == 8192
    assert "as curriculum.stages says" in " ".join(plan["why"])
