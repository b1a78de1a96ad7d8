"""The memory table: arithmetic by hand, and what autograd really keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from pipeline.base.fingerprint import model_shape
from pipeline.base.loading import DTYPES
from pipeline.hardware.memory import (
    Part,
    Setting,
    layer_bytes_per_token,
    needed_gib,
    training_parts,
    weights_bytes,
)
from pipeline.learning import attention
from pipeline.learning.compiled import compile_layers, decoder_layers
from pipeline.learning.methods import build_peft
from pipeline.learning.model import add_lora
from tests.support.machines import QWEN3_14B, SMOLLM2
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base

BIG = Setting(
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


def table(setting: Setting) -> dict[str, Part]:
    return {part.part: part for part in training_parts(QWEN3_14B, setting)}


def test_full_logits_of_a_long_row_are_shown_but_not_counted() -> None:
    # ms-swift#6966 and others: 32,768 × 151,936 fp32 logits are 18.5 GiB for every copy.
    parts = table(replace(BIG, sequence_tokens=32768))
    assert parts["full logits, never made"].gib >= 18.5
    assert not parts["full logits, never made"].counted
    assert parts["loss chunk"].gib < 6


def test_weights_by_storage() -> None:
    assert weights_bytes(QWEN3_14B, "bfloat16", "none") / 2**30 == pytest.approx(27.51, abs=0.01)
    # 13.21 G weights at 4.127 bits and 1.556 G at 16.
    expected = 13_212_057_600 * 4.126953125 / 8 + 1_556_249_600 * 2
    assert weights_bytes(QWEN3_14B, "float16", "nf4") == pytest.approx(expected)
    assert weights_bytes(SMOLLM2, "float32", "none") == 134_515_008 * 4


def test_optimizer_states_of_rank_64() -> None:
    parts = table(BIG)
    for name, size in (("adapter masters", 4), ("adapter gradients", 4), ("optimizer state", 8)):
        assert parts[name].gib == pytest.approx(256_901_120 * size / 2**30)


def test_checkpoints_are_layer_inputs() -> None:
    assert table(BIG)["layer inputs (checkpoints)"].gib == pytest.approx(6.25)


def test_one_h200_holds_16k_in_about_what_was_measured() -> None:
    # Measured with fused kernels: 42.2 GiB; plain ones need somewhat more.
    assert 42.2 <= needed_gib(training_parts(QWEN3_14B, BIG)) <= 48


def test_only_the_larger_of_loss_and_block_is_counted() -> None:
    for length in (1024, 16384):
        parts = table(replace(BIG, sequence_tokens=length))
        pair = [parts["one block, made again"], parts["loss chunk"]]
        assert [part.counted for part in pair] == [p.gib == max(q.gib for q in pair) for p in pair]


def test_every_choice_moves_the_need_the_right_way() -> None:
    need = needed_gib(training_parts(QWEN3_14B, BIG))
    for change in (
        {"recompute": 0.0},
        {"micro_batch_sequences": 2},
        {"compute_dtype": "float32"},
        {"ranks": 2},
    ):
        assert needed_gib(training_parts(QWEN3_14B, replace(BIG, **change))) > need, change
    for change in (
        {"quantization": "nf4"},
        {"rank": 32},
        {"sequence_tokens": 8192},
        {"targets": ["q_proj", "v_proj"]},
    ):
        assert needed_gib(training_parts(QWEN3_14B, replace(BIG, **change))) < need, change


def kept_bytes(base: Path, layers: int, tokens: int, setting: Setting) -> int:
    """Bytes that a real model keeps for its backward pass, parameters apart."""
    config: Any = transformers.AutoConfig.from_pretrained(str(base))
    config.num_hidden_layers = layers
    config.layer_types = ["full_attention"] * layers
    config._attn_implementation = attention.DOCUMENTS
    attention.register()
    dtype = DTYPES[setting.compute_dtype]
    params = make_params(**{"train.rank": setting.rank}).train
    model: Any = transformers.AutoModelForCausalLM.from_config(config).to(dtype)
    model.requires_grad_(False)
    names = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj".split()
    if setting.own_layers:
        add_lora(model, params, names, "none")
    else:
        build_peft(model, params, names)
    model.train()
    if setting.compiled:
        # The same partition as on a GPU, without its code.
        compile_layers(decoder_layers(model), "aot_eager_decomp_partition")
    known = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        # Casts of the adapter's weights do not grow with the tokens.
        if tensor.untyped_storage().data_ptr() not in known and tokens in tensor.shape:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    ids = torch.zeros((1, tokens), dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        with torch.autocast("cpu", torch.bfloat16, enabled=not setting.own_layers):
            packing = attention.packing_of((tokens,), torch.device("cpu"))
            model.model(input_ids=ids, use_cache=False, document_lengths=packing)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize(
    "change",
    [
        {"compute_dtype": "float32"},
        {"compute_dtype": "bfloat16"},
        {"compute_dtype": "bfloat16", "own_layers": False},
        {"compute_dtype": "bfloat16", "compiled": True, "grouped_attention": True},
    ],
    ids=["float32", "bfloat16", "autocast", "compiled"],
)
def test_a_block_keeps_what_the_formula_says(
    tmp_path: Path, kind: str, change: dict[str, Any]
) -> None:
    base = write_tiny_base(tmp_path, kind)
    tokens, rank = 96, 4
    setting = replace(BIG, rank=rank, **{"grouped_attention": False, **change})
    torch._dynamo.reset()
    two, three = (kept_bytes(base, n, tokens, setting) for n in (2, 3))
    measured = (three - two) / tokens
    assert layer_bytes_per_token(model_shape(base), setting) == pytest.approx(measured, rel=0.05)
