"""Operations are counted, not guessed: against PyTorch's own counter on a tiny base."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM

from pipeline.base.fingerprint import model_shape
from pipeline.base.flops import (
    attention_flops,
    linear_elements,
    spent_flops_per_token,
    useful_flops,
)
from tests.support.tiny import write_tiny_base

TOKENS = 32


def test_a_forward_pass_is_what_pytorch_counts(tmp_path: Path) -> None:
    base = write_tiny_base(tmp_path / "base", "qwen3")
    shape = model_shape(base)
    model = AutoModelForCausalLM.from_pretrained(base, attn_implementation="eager")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_ids=torch.arange(3, 3 + TOKENS)[None])
    linear = 2 * linear_elements(shape) * TOKENS
    head = 2 * shape.hidden * shape.vocabulary * TOKENS
    # Eager attention computes the masked half too.
    whole = 2 * attention_flops(shape, TOKENS**2)
    assert counter.get_total_flops() == pytest.approx(linear + head + whole, rel=0.01)


def test_useful_work_has_no_repeats_and_no_untrained_logits(tmp_path: Path) -> None:
    shape = model_shape(write_tiny_base(tmp_path / "base", "llama"))
    all_trained = useful_flops(shape, 0, tokens=64, trained=64, squared_lengths=64**2)
    spent = 64 * spent_flops_per_token(shape, 0, 64, recomputed=0.0)
    assert all_trained < spent < 64 * spent_flops_per_token(shape, 0, 64, recomputed=1.0)
    none_trained = useful_flops(shape, 0, tokens=64, trained=0, squared_lengths=64**2)
    assert all_trained - none_trained == 64 * 4 * shape.hidden * shape.vocabulary


def test_short_documents_cost_less_attention_and_an_adapter_six_a_weight(tmp_path: Path) -> None:
    shape = replace(model_shape(write_tiny_base(tmp_path / "base", "llama")), layers=3)
    one = useful_flops(shape, 0, tokens=64, trained=0, squared_lengths=64**2)
    four = useful_flops(shape, 0, tokens=64, trained=0, squared_lengths=4 * 16**2)
    assert one - four == 3 * attention_flops(shape, 64**2 - 4 * 16**2)
    assert (
        useful_flops(shape, 7, tokens=1, trained=0, squared_lengths=1)
        - useful_flops(shape, 0, tokens=1, trained=0, squared_lengths=1)
        == 42
    )
