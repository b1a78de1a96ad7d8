"""Adapters that would break the contract, or that PEFT 0.9.0 could not load, are not planned."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.base.errors import UserError
from pipeline.base.params import Params
from pipeline.hardware.adapter import check_size
from pipeline.hardware.planner import make_plans
from tests.support.machines import CPU_PLAIN, H200X1, QWEN3_14B, SMOLLM2
from tests.support.settings import make_params


def params(**changes: Any) -> Params:
    whole = make_params()
    return whole.model_copy(update={"train": whole.train.model_copy(update=changes)})


def test_the_sentence_names_method_and_size() -> None:
    assert check_size(SMOLLM2, params()).startswith("Adapter: rank 16 on all-linear, 4,884,480 ")
    said = check_size(SMOLLM2, params(method="ia3"))
    assert said.startswith("Adapter: ia3, on all-linear, ")


@pytest.mark.parametrize(
    ("method", "rank", "targets", "remedy"),
    [
        ("loha", 64, "all-linear", "at most 37, or adapt fewer"),
        ("oft", 2, ["q_proj"], "at least 4, or adapt fewer"),
    ],
)
def test_too_many_elements_are_refused_with_the_nearest_rank_that_fits(
    method: str, rank: int, targets: Any, remedy: str
) -> None:
    with pytest.raises(UserError, match=remedy) as raised:
        check_size(QWEN3_14B, params(method=method, rank=rank, target_modules=targets))
    assert "verify.max_elements" in str(raised.value)


def test_no_rank_may_fit() -> None:
    tight = make_params(**{"verify.max_elements": 100})
    with pytest.raises(UserError, match=r"\. Adapt fewer train.target_modules"):
        check_size(SMOLLM2, tight)


def test_ia3_has_no_rank_to_be_too_large() -> None:
    check_size(SMOLLM2, params(method="ia3", rank=65))
    with pytest.raises(UserError, match=r"train\.rank: 65"):
        check_size(SMOLLM2, params(rank=65))


def test_the_plan_refuses_what_does_not_go_together() -> None:
    wrong = params(method="lokr", alpha=32, rank=16, optimizer="adamw-8bit")
    with pytest.raises(UserError, match=r"lokr.*needs a GPU"):
        make_plans(SMOLLM2, CPU_PLAIN, wrong)


def test_auto_never_chooses_a_form_that_the_method_cannot_be_trained_on() -> None:
    small = H200X1.gpus[0].__class__(0, "small", 24.0, (8, 0))
    machine = H200X1.__class__(**{**vars(H200X1), "gpus": (small,)})
    lora = make_plans(QWEN3_14B, machine, params())
    assert lora.training["training"]["quantization"] == "nf4"
    with pytest.raises(UserError, match=r"memory|fit"):
        make_plans(QWEN3_14B, machine, params(method="dora"))
