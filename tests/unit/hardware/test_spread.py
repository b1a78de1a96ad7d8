"""A base spread over several GPUs: when it is chosen, what it needs, when it is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline.base.errors import UserError
from pipeline.hardware.choices import choose_devices
from pipeline.hardware.machine import Gpu, Machine
from pipeline.hardware.planner import make_plans
from pipeline.hardware.spread import gathered_elements, ways_to_spread
from tests.support.machines import CPU_BF16, H100X8, H200X1, QWEN3_14B, T4X2, described, several
from tests.support.settings import make_params

A5000X2 = described(several(Gpu(0, "NVIDIA RTX A5000", 23.5, (8, 6)), 2))
"""28 GiB of weights fit neither card whole, and both together."""
JOB = {"budget.hours": 20.0, "plan.sequence_tokens": None, "train.tokens_per_step": 65536}


def plan_on(machine: Machine, **overrides: Any) -> dict[str, Any]:
    return make_plans(QWEN3_14B, machine, make_params(**{**JOB, **overrides})).training


def sentence(plan: dict[str, Any]) -> str:
    return next(text for text in list[str](plan["why"]) if text.startswith("Parallel"))


def ways(machine: Machine, **overrides: Any) -> list[bool]:
    params = make_params(**overrides)
    return ways_to_spread(params, choose_devices(params, machine, []), machine)


def test_a_base_that_fits_is_not_spread() -> None:
    plan = plan_on(H100X8, **{"train.tokens_per_step": 131072})
    assert plan["training"]["parallel"] == "replicas"
    assert sentence(plan) == "Parallel: the whole base on each of 8 ranks, since it fits."
    assert not any(text.startswith("Parallel") for text in plan_on(H200X1)["why"])


def test_a_base_that_fits_in_nf4_is_not_spread() -> None:
    training = plan_on(A5000X2)["training"]
    assert (training["parallel"], training["quantization"]) == ("replicas", "nf4")


def test_a_base_that_fits_no_card_is_spread_over_them() -> None:
    plan = plan_on(A5000X2, **{"train.base_quantization": "none"})
    training = plan["training"]
    assert (training["parallel"], training["quantization"]) == ("sharded", "none")
    assert "since whole it needs 28.0 GiB of 22.8 on each" in sentence(plan)
    assert not training["offload"]
    parts = {part["part"]: part for part in plan["memory"]}
    assert parts["base weights"]["gib"] == pytest.approx(27.51 / 2, abs=0.01)
    assert parts["base weights"]["formula"].endswith("/ 2 ranks")
    assert parts["gathered weights"]["gib"] == pytest.approx(
        2 * 151936 * 5120 * 2 / 2**30, abs=0.01
    )
    assert plan["memory_needed_gib"] <= plan["memory_available_gib"]


def test_a_base_that_whole_leaves_little_room_is_spread() -> None:
    cards = described(several(Gpu(0, "NVIDIA A100-PCIE-40GB", 29.8, (8, 0)), 2))
    plan = plan_on(cards, **{"train.base_quantization": "none"})
    assert plan["training"]["parallel"] == "sharded"
    assert "since whole it leaves room for only 3,072 tokens" in sentence(plan)
    assert plan["training"]["sequence_tokens"] > 4096


def test_a_choice_of_the_user_wins_and_is_slower() -> None:
    whole, spread = (
        plan_on(H100X8, **{"train.tokens_per_step": 131072, "train.parallel": asked})
        for asked in ("replicas", "sharded")
    )
    assert spread["training"]["parallel"] == "sharded"
    assert sentence(spread).startswith("Parallel: the base spread over 8 ranks, as train.parallel")
    assert sentence(whole).endswith("as train.parallel says.")
    assert spread["memory_needed_gib"] < whole["memory_needed_gib"]
    assert spread["time"]["tokens_per_second"] < whole["time"]["tokens_per_second"] * 1.2


@pytest.mark.parametrize(
    ("machine", "change", "reason"),
    [
        (H200X1, {}, r"needs at least two GPUs, and here is 1 × NVIDIA H200"),
        (CPU_BF16, {}, r"needs at least two GPUs, and here is 1 × Test CPU"),
        (T4X2, {"train.base_quantization": "nf4"}, r"in nf4.*base_quantization to none"),
        (H100X8, {"train.base_quantization": "fp8"}, r"in fp8.*base_quantization to none"),
        (T4X2, {"train.method": "dora"}, r"modules of dora.*train\.method to lora"),
        (replace(T4X2, torch="2.5.1+cu124"), {}, r"needs torch 2\.6 or newer, 2\.5\.1\+cu124"),
    ],
)
def test_what_cannot_be_spread_is_refused_and_never_chosen(
    machine: Machine, change: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UserError, match=reason):
        ways(machine, **change, **{"train.parallel": "sharded"})
    assert ways(machine, **change) == [False]
    assert ways(machine, **change, **{"train.parallel": "replicas"}) == [False]


def test_whole_bases_are_preferred() -> None:
    assert ways(T4X2) == [False, True]
    assert ways(T4X2, **{"train.parallel": "sharded"}) == [True]
    assert ways(replace(T4X2, torch="2.13.0+cu130")) == [False, True]


def test_layers_count_where_they_are_larger_than_a_table() -> None:
    small = replace(QWEN3_14B, vocabulary=1000)
    assert gathered_elements(small)[1].startswith("3 layers × ")
    assert gathered_elements(QWEN3_14B)[0] == 2 * 151936 * 5120


def test_a_refusal_says_how_the_base_would_be_held_and_what_more_gpus_would_do() -> None:
    with pytest.raises(UserError) as caught:
        plan_on(T4X2, **{"train.parallel": "sharded"})
    assert "spread over 2 ranks" in caught.value.problem
    assert "or more of them" in caught.value.remedy
    assert "nf4" not in caught.value.remedy
    with pytest.raises(UserError, match="more of the same do not help"):
        plan_on(T4X2, **{"train.parallel": "replicas", "train.base_quantization": "none"})
    with pytest.raises(UserError, match=r"train\.base_quantization: nf4"):
        plan_on(T4X2, **{"train.base_quantization": "none"})
