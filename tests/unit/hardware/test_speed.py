"""Predicted rates against measured ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.hardware.machine import Machine
from pipeline.hardware.memory import Setting
from pipeline.hardware.speed import (
    Decoding,
    decode_step_seconds,
    training_flops,
    training_rate,
)
from tests.support.machines import CPU_BF16, H100X8, H200X1, QWEN3_14B, SMOLLM2, T4X2, described

GPU = Setting(
    device="cuda",
    ranks=1,
    compute_dtype="bfloat16",
    quantization="none",
    sequence_tokens=16384,
    micro_batch_sequences=1,
    recompute=1.0,
    loss_chunk_positions=2048,
    rank=64,
    targets="all-linear",
    grouped_attention=True,
)
CPU = replace(
    GPU, device="cpu", sequence_tokens=512, recompute=0.0, rank=16,
    grouped_attention=False,
)  # fmt: skip


def test_work_of_a_token_is_the_sum_of_its_parts() -> None:
    # Qwen3-14B at 16,384 tokens without recomputation, in GFLOP: linear layers
    # 52.8, attention 23.5, head 3.1, adapters 1.5.
    flops = training_flops(QWEN3_14B, replace(GPU, recompute=0.0)) / 1e9
    assert flops == pytest.approx(52.85 + 23.49 + 3.11 + 1.54, rel=0.01)


def test_recomputation_costs_a_forward_pass() -> None:
    kept = training_flops(QWEN3_14B, replace(GPU, recompute=0.0))
    again = training_flops(QWEN3_14B, GPU)
    assert 1.3 < again / kept < 1.5


def test_an_h200_trains_qwen3_14b_as_measured() -> None:
    rate = training_rate(QWEN3_14B, H200X1, replace(GPU, sequence_tokens=16_384))
    assert rate.tokens_per_second == pytest.approx(3624, rel=0.05)
    assert "H200 data sheet" in rate.source
    fast = replace(GPU, recompute=0.0, compiled=True)
    assert training_rate(QWEN3_14B, H200X1, fast).tokens_per_second == pytest.approx(6915, rel=0.03)
    stored = replace(fast, quantization="fp8")
    rate = training_rate(QWEN3_14B, H200X1, stored)
    assert rate.tokens_per_second == pytest.approx(9002, rel=0.03)


@pytest.mark.parametrize(
    ("dtype", "lowest", "highest"), [("bfloat16", 440, 575), ("float32", 165, 290)]
)
def test_two_cores_train_smollm2_as_measured(dtype: str, lowest: float, highest: float) -> None:
    rate = training_rate(SMOLLM2, CPU_BF16, replace(CPU, compute_dtype=dtype))
    assert lowest <= rate.tokens_per_second <= highest


def test_rate_grows_with_cores_but_less_than_they_do() -> None:
    one, two, sixteen = (
        training_rate(SMOLLM2, described(cores=n), CPU).tokens_per_second for n in (1, 2, 16)
    )
    assert one < two < 2 * one
    assert 4 * two < sixteen < 8 * two


def test_eight_ranks_train_nearly_eight_times_as_fast() -> None:
    one = training_rate(QWEN3_14B, H100X8, GPU).tokens_per_second
    eight = training_rate(QWEN3_14B, H100X8, replace(GPU, ranks=8)).tokens_per_second
    assert 7 * one < eight < 8 * one


def test_the_slowest_gpu_sets_the_pace() -> None:
    mixed = replace(H200X1, gpus=(*H200X1.gpus, *T4X2.gpus))
    setting = replace(GPU, compute_dtype="float16")
    assert training_rate(QWEN3_14B, mixed, setting) == training_rate(QWEN3_14B, T4X2, setting)


def test_float32_has_no_tensor_cores() -> None:
    half = training_rate(QWEN3_14B, H200X1, GPU).tokens_per_second
    full = training_rate(QWEN3_14B, H200X1, replace(GPU, compute_dtype="float32"))
    assert full.tokens_per_second < half / 4


@pytest.mark.parametrize(
    ("dtype", "batch", "context", "measured"),
    [
        ("bfloat16", 8, 160, 149),
        ("bfloat16", 32, 160, 241),
        ("bfloat16", 64, 160, 264),
        ("bfloat16", 32, 384, 144),
        ("float32", 8, 160, 95),
        ("float32", 32, 160, 153),
    ],
)
def test_two_cores_decode_smollm2_as_measured(
    dtype: str, batch: int, context: int, measured: float
) -> None:
    decoding = Decoding("cpu", dtype, "none", context)
    seconds = decode_step_seconds(SMOLLM2, CPU_BF16, decoding, batch)
    assert batch / seconds == pytest.approx(measured, rel=0.2)


def test_an_h200_decodes_qwen3_14b_as_measured() -> None:
    decoding = Decoding("cuda", "bfloat16", "none", 192)
    seconds = decode_step_seconds(QWEN3_14B, H200X1, decoding, 64)
    assert 64 / seconds == pytest.approx(549, rel=0.1)


@pytest.mark.parametrize("machine", [CPU_BF16, H200X1])
def test_longer_contexts_and_larger_batches_take_longer_steps(machine: Machine) -> None:
    device = "cuda" if machine.gpus else "cpu"
    short, long = (Decoding(device, "bfloat16", "none", n) for n in (100, 5000))
    step = decode_step_seconds(QWEN3_14B, machine, short, 8)
    assert decode_step_seconds(QWEN3_14B, machine, long, 8) > step
    assert decode_step_seconds(QWEN3_14B, machine, short, 16) > step


def test_nf4_decodes_more_slowly_than_16_bits() -> None:
    plain, nf4 = (Decoding("cuda", "float16", q, 1000) for q in ("none", "nf4"))
    assert decode_step_seconds(QWEN3_14B, T4X2, nf4, 1) > decode_step_seconds(
        QWEN3_14B, T4X2, plain, 1
    )
