"""The sentences of a fit say what was decided, and against what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline.base.fingerprint import ModelShape
from pipeline.hardware.machine import Gpu, Machine
from pipeline.hardware.planner import make_plans
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

A100 = described([Gpu(0, "NVIDIA A100-PCIE-40GB", 28.9, (8, 0))])
H100 = described([Gpu(0, "NVIDIA H100 80GB HBM3", 79.6, (9, 0))])


def sentence(topic: str, machine: Machine, shape: ModelShape = QWEN3_14B, **overrides: Any) -> str:
    job = {"budget.hours": 20.0, "plan.sequence_tokens": None, "train.tokens_per_step": 65536}
    why = make_plans(shape, machine, make_params(**{**job, **overrides})).training["why"]
    return next(text for text in why if text.startswith(topic))


@pytest.mark.parametrize(
    ("topic", "machine", "change", "expected"),
    [
        ("Storage", H200X1, {}, "bfloat16, since it fits without quantisation"),
        ("Storage", T4X2, {}, "nf4; in float16 it needs 28.0 GiB even with"),
        ("Storage", A100, {}, "nf4; in bfloat16 it leaves room for only"),
        ("Storage", H200X1, {"train.base_quantization": "nf4"}, "as train.base_quantization says"),
        ("Sequences", H200X1, {}, "16,384 tokens, the longest choice within"),
        ("Sequences", T4X2, {}, "12,288 tokens, the longest choice that fits: 16,384 need"),
        ("Sequences", T4X2, {"plan.sequence_tokens": 1024}, "as plan.sequence_tokens says"),
        ("Recomputation", H200X1, {}, "off; all activations fit"),
        (
            "Recomputation",
            A100,
            {"train.base_quantization": "none"},
            "wait in host memory: on the card they would need",
        ),
        ("Recomputation", T4X2, {"plan.gradient_checkpointing": True}, "on, as plan.grad"),
        ("Recomputation", H100, {}, "of 40 layers; "),
        ("Batch", H100X8, {}, "8 sequences a step = 8 ranks × 1 at a time × 1 forward pass;"),
        ("Batch", H200X1, {}, "4 sequences a step = 1 rank × 1 at a time × 4 forward passes."),
    ],
)
def test_sentences(topic: str, machine: Machine, change: dict[str, Any], expected: str) -> None:
    assert expected in sentence(topic, machine, **change)


def test_a_large_vocabulary_makes_small_loss_chunks() -> None:
    wide = replace(QWEN3_14B, vocabulary=400_000)
    text = sentence("Loss", T4X2, wide, **{"plan.sequence_tokens": 2048, "train.rank": 32})
    assert "since the logits of 2,048 would not fit" in text


def test_a_small_model_keeps_its_activations() -> None:
    small = {"train.tokens_per_step": 1024}
    assert "off; all activations fit" in sentence("Recomputation", CPU_BF16, SMOLLM2, **small)


def test_an_even_batch_is_not_excused() -> None:
    assert "that is" not in sentence("Batch", H200X1)
    assert "131,072 tokens where train.tokens_per_step says 65,536" in sentence("Batch", H100X8)
