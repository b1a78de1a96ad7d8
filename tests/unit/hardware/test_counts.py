"""Element counts against published figures and against a real file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import model_shape, tensor_shapes
from pipeline.hardware.counts import (
    adapter_elements,
    cache_bytes_per_token,
    linear_elements,
    other_elements,
)
from tests.support.machines import QWEN3_14B, SMOLLM2
from tests.support.tiny import write_tiny_base


@pytest.mark.parametrize("rank", [1, 8, 64])
def test_qwen3_14b_has_4014080_elements_a_rank(rank: int) -> None:
    assert adapter_elements(QWEN3_14B, rank, "all-linear") == 4_014_080 * rank


def test_attention_alone_is_the_smaller_part() -> None:
    names = ["q_proj", "k_proj", "v_proj", "o_proj"]
    assert adapter_elements(QWEN3_14B, 64, names) == 40 * 64 * (10240 + 6144 + 6144 + 10240)


def test_linear_layers_and_the_rest_make_the_model() -> None:
    assert linear_elements(QWEN3_14B) == 13_212_057_600
    embeddings_and_head = 2 * 151936 * 5120
    norms = 40 * (2 * 5120 + 2 * 128) + 5120
    assert other_elements(QWEN3_14B) == embeddings_and_head + norms


def test_tied_embeddings_are_stored_once() -> None:
    assert other_elements(SMOLLM2) == 49152 * 576 + 30 * 2 * 576 + 576


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_counts_agree_with_the_weights_of_a_real_model(tmp_path: Path, kind: str) -> None:
    base = write_tiny_base(tmp_path, kind)
    shapes = tensor_shapes(base)
    linear = [shape for name, shape in shapes.items() if name.endswith("_proj.weight")]
    shape = model_shape(base)
    assert linear_elements(shape) == sum(high * wide for high, wide in linear)
    assert adapter_elements(shape, 4, "all-linear") == 4 * sum(sum(sides) for sides in linear)
    assert other_elements(shape) == shape.parameters - linear_elements(shape) > 0


def test_cache_of_qwen3_14b_is_160_kib_a_token() -> None:
    assert cache_bytes_per_token(QWEN3_14B, 2) == 160 * 1024


@pytest.mark.parametrize("names", [["q_porj"], ["lm_head"], ["embed_tokens", "q_proj"], []])
def test_unknown_targets_are_refused_by_name(names: list[str]) -> None:
    with pytest.raises(UserError, match=r"target_modules.*Choose among q_proj"):
        adapter_elements(replace(QWEN3_14B), 8, names)
