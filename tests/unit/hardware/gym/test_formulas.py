"""Formulas against the figures that their sources print, or against a sum in a comment."""

from __future__ import annotations

import pytest

from pipeline.hardware.gym import formulas as f


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_is_figure_1_of_the_paper(stage: int, gigabytes: float) -> None:
    # arXiv 1910.02054, figure 1: 7.5 billion parameters on 64 ranks.
    assert f.zero_bytes_per_parameter(stage, 64) * 7.5 == pytest.approx(gigabytes, abs=0.06)


def test_one_rank_shards_nothing() -> None:
    assert {f.zero_bytes_per_parameter(stage, 1) for stage in range(4)} == {16.0}


def test_activations_of_gpt3_are_those_of_the_paper() -> None:
    # arXiv 2205.05198, section 4.4: for GPT-3 (a=96, s=2048, h=12288) 5as/h is 80, so that
    # selective recomputation saves 80 / 114 = 70 %.
    whole = f.layer_activation_bytes(2048, 2048, 12288, 96, "none")
    light = f.layer_activation_bytes(2048, 2048, 12288, 96, "selective")
    assert 1 - light / whole == pytest.approx(0.70, abs=0.005)
    assert whole == 2048 * 12288 * (34 + 80)


def test_full_checkpointing_keeps_inputs_and_one_layer() -> None:
    # 10 layers × 2·s·h + 34·s·h = 54·s·h, s·h = 100 × 64.
    assert f.activation_bytes(10, 100, 100, 64, 8, "full") == 54 * 6400
    assert f.activation_bytes(10, 100, 100, 64, 8, "selective") == 340 * 6400


def test_sequence_parallelism_splits_the_ten() -> None:
    # t = 8: 10 + 24/8 = 13 against 34/8 = 4.25.
    plain = f.parallel_layer_activation_bytes(1, 1, 8, sequence_parallel=False)
    split = f.parallel_layer_activation_bytes(1, 1, 8, sequence_parallel=True)
    assert (plain, split) == (13.0, 4.25)


def test_bubble_and_stage_parameters() -> None:
    assert f.pipeline_bubble(4, 12) == 0.25
    # 12·100²·8/2 + 1000·100 = 480,000 + 100,000.
    assert f.stage_parameters(8, 100, 1000, 2) == 580_000


def test_logits_and_cache() -> None:
    # 32,768 × 151,936 in fp32 alone are 18.55 GiB; with the bf16 value and the gradient 2.5 ×.
    assert f.logits_bytes(32768, 151936) / f.GIB == pytest.approx(2.5 * 18.546875)
    # 36 layers, 8 heads of 128: 2 × 2 × 36 × 1024 = 147,456 bytes, 144 KiB.
    assert f.kv_bytes_per_token(36, 8, 128) == 144 * 1024


def test_operations_are_those_of_palm() -> None:
    # 6·10⁹ + 12·10·1000·2000 = 6.24·10⁹.
    assert f.training_flops_per_token(1e9, 10, 1000, 2000) == pytest.approx(6.24e9)


def test_steps_and_rates() -> None:
    assert f.steps_per_epoch(1001, 100) == 11
    assert f.linear_rate(1e-4, 5, 10, 110) == pytest.approx(5e-5)
    assert f.linear_rate(1e-4, 60, 10, 110) == pytest.approx(5e-5)
    assert f.linear_rate(1e-4, 200, 10, 110) == 0.0


@pytest.mark.parametrize(
    ("number", "limit", "divisor"), [(12, 5.9, 4), (12, 12, 12), (7, 6, 1), (12, 0.9, 0)]
)
def test_largest_divisor(number: int, limit: float, divisor: int) -> None:
    assert f.largest_divisor(number, limit) == divisor
