"""What fits: order of sacrifice, batches, and refusals that help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import ModelShape
from pipeline.hardware.choices import choose_devices, choose_dtype, storage_options
from pipeline.hardware.fit import (
    LENGTHS,
    Fit,
    Fitter,
    candidate_lengths,
    choose_fit,
)
from pipeline.hardware.machine import Gpu, Machine
from tests.support.machines import (
    CPU_BF16,
    H100X8,
    H200X1,
    QWEN3_14B,
    SMOLLM2,
    T4X2,
    described,
)
from tests.support.settings import make_params

JOB = {
    "plan.sequence_tokens": None,
    "train.rank": 16,
    "train.steps": None,
    "train.tokens_per_step": 65536,
}


def fit_on(machine: Machine, shape: ModelShape = QWEN3_14B, **overrides: Any) -> Fit:
    params = make_params(**{**JOB, **overrides})
    devices = choose_devices(params, machine, [])
    fitter = Fitter(shape, params, devices, choose_dtype(params, devices, []))
    return choose_fit(fitter, storage_options(params, devices, machine))[0]


def test_a_large_card_takes_the_longest_sequences_unquantised() -> None:
    setting = fit_on(H200X1).setting
    assert (setting.sequence_tokens, setting.quantization) == (16384, "none")
    assert setting.compiled
    assert not setting.gradient_checkpointing


def test_a_t4_takes_nf4_and_leaves_layer_inputs_to_the_host() -> None:
    setting = fit_on(T4X2).setting
    assert setting.quantization == "nf4"
    assert setting.offload
    assert 8192 <= setting.sequence_tokens < 16384


def test_a_t4_trains_rank_64_at_8192_with_an_8_bit_optimizer() -> None:
    """The first-class case: 14 B, rank 64, within 14.0 GiB."""
    job = {"train.rank": 64, "plan.sequence_tokens": 8192, "train.optimizer": "adamw-8bit"}
    setting = fit_on(T4X2, **job).setting
    assert (setting.sequence_tokens, setting.rank) == (8192, 64)


def test_a_lower_rank_buys_longer_sequences_on_a_t4() -> None:
    low, high = (fit_on(T4X2, **{"train.rank": rank}).setting for rank in (16, 32))
    assert low.sequence_tokens > high.sequence_tokens


def test_unquantised_wins_while_sequences_stay_long_enough() -> None:
    cards = [Gpu(0, "NVIDIA A100-SXM4-40GB", 39.4, (8, 0))]
    setting = fit_on(described(cards)).setting
    assert (setting.quantization, setting.sequence_tokens) == ("none", 16384)
    tight = fit_on(described([replace(cards[0], memory_gib=28.9)])).setting
    assert tight.quantization == "nf4"
    assert tight.sequence_tokens == 16384


def test_recomputation_is_off_when_activations_fit() -> None:
    fit = fit_on(CPU_BF16, SMOLLM2, **{"train.tokens_per_step": 1024})
    assert not fit.setting.gradient_checkpointing


def test_no_more_layers_are_recomputed_than_must_be() -> None:
    card = [Gpu(0, "NVIDIA H100 80GB HBM3", 79.6, (9, 0))]
    setting = fit_on(described(card)).setting
    assert setting.sequence_tokens == 16384
    assert 0 < setting.recompute < 1
    assert setting.recomputed_layers(40) == 40 * setting.recompute


def test_explicit_choices_win() -> None:
    setting = fit_on(
        H200X1,
        **{
            "plan.sequence_tokens": 2048,
            "plan.gradient_checkpointing": True,
            "plan.micro_batch_sequences": 2,
            "train.base_quantization": "nf4",
        },
    ).setting
    assert (setting.sequence_tokens, setting.micro_batch_sequences) == (2048, 2)
    assert setting.gradient_checkpointing
    assert setting.quantization == "nf4"


def test_micro_batches_stop_growing_where_they_gain_nothing() -> None:
    fit = fit_on(H200X1, **{"plan.sequence_tokens": 4096, "train.tokens_per_step": 262144})
    assert fit.setting.tokens <= 16384
    assert fit.setting.micro_batch_sequences * fit.accumulation == 64


def test_lengths_stay_within_positions_and_step() -> None:
    assert candidate_lengths(make_params(**JOB), QWEN3_14B) == list(LENGTHS)
    assert candidate_lengths(make_params(**JOB), SMOLLM2)[0] == 8192
    small = make_params(**{**JOB, "train.tokens_per_step": 1000})
    assert candidate_lengths(small, SMOLLM2)[0] == 768
    assert candidate_lengths(make_params(**JOB), replace(SMOLLM2, max_positions=100)) == [100]


def test_a_length_beyond_the_positions_is_refused() -> None:
    with pytest.raises(UserError, match=r"8193 is more than the base's 8192 positions"):
        fit_on(CPU_BF16, SMOLLM2, **{"plan.sequence_tokens": 8193})


def test_a_micro_batch_that_does_not_divide_is_refused() -> None:
    with pytest.raises(UserError, match="divisor of 4"):
        fit_on(H200X1, **{"plan.micro_batch_sequences": 3})


def test_a_refusal_names_only_ways_that_work() -> None:
    with pytest.raises(UserError) as caught:
        fit_on(T4X2, **{"plan.sequence_tokens": 16384})
    assert "plan.sequence_tokens: 12288" in caught.value.remedy
    assert "nf4" not in caught.value.remedy
    assert fit_on(T4X2, **{"plan.sequence_tokens": 12288}).setting.sequence_tokens == 12288


CURRICULUM = {
    "curriculum.bands": [2048, 4096, 8192, 16384],
    "curriculum.stages": [
        {"sequence_tokens": 4096, "share": 1, "tiers": None},
        {"sequence_tokens": 16384, "share": 1, "tiers": None},
    ],
}


def test_the_longest_stage_decides_the_length() -> None:
    assert fit_on(H200X1, **CURRICULUM).setting.sequence_tokens == 16384
    assert candidate_lengths(make_params(**{**JOB, **CURRICULUM}), QWEN3_14B) == [16384]
    with pytest.raises(UserError, match=r"curriculum\.stages: 16384 is more than the base's 8192"):
        fit_on(CPU_BF16, SMOLLM2, **CURRICULUM)


def test_a_curriculum_that_does_not_fit_is_told_shorter_stages() -> None:
    with pytest.raises(UserError) as caught:
        fit_on(T4X2, **CURRICULUM)
    assert "curriculum.stages with sequences of at most: 12288" in caught.value.remedy
    assert "plan.sequence_tokens" not in caught.value.remedy


def test_a_refusal_offers_nf4_when_it_was_ruled_out() -> None:
    with pytest.raises(UserError, match=r"train\.base_quantization: nf4"):
        fit_on(T4X2, **{"plan.sequence_tokens": 2048, "train.base_quantization": "none"})


def test_a_refusal_joins_two_changes_when_neither_is_enough() -> None:
    with pytest.raises(UserError, match=r"train\.rank: 32 with plan\.sequence_tokens: \d+"):
        fit_on(T4X2, **{"plan.sequence_tokens": 24576, "train.rank": 64})


def test_a_small_machine_is_told_that_only_hardware_helps() -> None:
    with pytest.raises(UserError) as caught:
        fit_on(CPU_BF16)
    assert "GiB; Test CPU offers" in caught.value.problem
    assert caught.value.remedy.startswith("Ways out: a machine with a GPU or more memory")


def test_more_of_the_same_gpus_do_not_help_memory() -> None:
    one = fit_on(replace(H100X8, gpus=H100X8.gpus[:1]), **{"train.tokens_per_step": 131072})
    eight = fit_on(H100X8, **{"train.tokens_per_step": 131072})
    assert one.setting.sequence_tokens == eight.setting.sequence_tokens
    assert eight.accumulation == one.accumulation / 8
