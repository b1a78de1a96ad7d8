from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pipeline.base.adapter_format import WEIGHTS_FILE, lora_key
from pipeline.release.contract import faults
from tests.support.adapters import lora_tensors, write_adapter
from tests.support.tiny import write_tiny_base
from tests.unit.release.breaking import (
    Q0,
    Break,
    checks_of,
    in_config,
    in_tensors,
    only_fault,
    put,
    raw_weights,
    rename,
    spoil,
    zero_b,
)

BROKEN: dict[str, tuple[Break, str, str]] = {
    "ranks unlike the config": (in_config(r=8), "tensor-ranks", "rank 4, the config says 8"),
    "full module": (
        put("base_model.model.model.embed_tokens.weight", torch.ones(2, 2)),
        "tensor-names",
        "embed_tokens.weight",
    ),
    "embedding update": (
        put("base_model.model.model.embed_tokens.lora_embedding_A", torch.ones(2, 2)),
        "tensor-names",
        "lora_embedding_A",
    ),
    "embedding as a linear layer": (
        put("base_model.model.model.embed_tokens.lora_A.weight", torch.ones(2, 2)),
        "no-embeddings",
        "the embedding",
    ),
    "tied head": (in_config(target_modules=["q_proj", "lm_head"]), "no-embeddings", "tied"),
    "keys of an adapter name": (
        rename("lora_A.weight", "lora_A.default.weight"), "tensor-names", "lora_A.default"),
    "keys without the prefix": (rename("base_model.model.", ""), "tensor-names", "start with"),
    "keys of no module": (rename("layers.", "blocks."), "tensor-modules", "blocks.0"),
    "a norm": (
        put("base_model.model.model.norm.lora_A.weight", torch.ones(4, 64)),
        "tensor-modules",
        "not a linear layer",
    ),
    "all-zero B": (in_tensors(zero_b), "not-zero", "zero in every module"),
    "NaN": (spoil(float("nan")), "finite", "q_proj.lora_B"),
    "infinity": (spoil(float("inf")), "finite", "1 values"),
    "wrong shape": (
        put(lora_key(Q0, "A"), torch.ones(4, 63)), "tensor-shapes", "wants [4, 64]"),
    "scalar": (put(lora_key(Q0, "A"), torch.tensor(1.0)), "tensor-shapes", "lora_A"),
    "A without B": (
        in_tensors(lambda t: t.pop(lora_key(Q0, "B")) is None), "pairs", "lacks lora_B"),
    "magnitude without DoRA": (
        put(lora_key(Q0, "A").replace("lora_A.weight", "lora_magnitude_vector"), torch.ones(64)),
        "pairs",
        "must not have",
    ),
    "DoRA without magnitudes": (in_config(use_dora=True), "pairs", "lacks lora_magnitude_vector"),
    "two types": (
        in_tensors(lambda t: t.update({lora_key(Q0, "B"): t[lora_key(Q0, "B")].half()})),
        "tensor-type",
        "F16, F32",
    ),
    "integers": (
        in_tensors(lambda t: t.update({k: v.int() for k, v in t.items()})), "tensor-type", "I32"),
    "no tensor": (raw_weights(b"\x02\0\0\0\0\0\0\0{}"), "tensor-file", "no tensor"),
    "empty tensor": (put(lora_key(Q0, "A"), torch.zeros(0)), "tensor-file", "[0] is empty"),
    "torn weights": (raw_weights(b"PK\x03\x04 pickled"), "tensor-file", "header of"),
    "target of no tensor": (
        in_config(target_modules=["q_proj", "down_proj", "v_proj"]), "selection", "'v_proj'"),
    "tensor of no target": (in_config(target_modules=["q_proj"]), "selection", "does not select"),
    "layer left out": (
        in_tensors(lambda t: [t.pop(lora_key(Q0, side)) for side in "AB"] and None),
        "selection",
        "no tensor for it",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("apply", "rule", "reason"), BROKEN.values(), ids=BROKEN)
def test_one_fault_gives_one_reason(
    apply: Break, rule: str, reason: str, base: Path, tmp_path: Path
) -> None:
    folder = write_adapter(tmp_path / "adapter", base)
    apply(folder, base)
    fault = only_fault(folder, base)
    assert fault.id == rule
    assert reason in fault.detail


@pytest.mark.parametrize("number", ["9" * 5000, "1e999", "-1", "[]", '"F32"', "{}", "null"])
@pytest.mark.parametrize("field", ["dtype", "shape", "data_offsets"])
def test_no_header_makes_the_contract_stumble(
    field: str, number: str, base: Path, tmp_path: Path
) -> None:
    folder = write_adapter(tmp_path / "adapter", base)
    fields = {"dtype": '"F32"', "shape": "[1]", "data_offsets": "[0,4]", field: number}
    body = ",".join(f'"{key}":{value}' for key, value in fields.items())
    text = f'{{"{lora_key(Q0, "A")}":{{{body}}}}}'.encode()
    data = len(text).to_bytes(8, "little") + text + bytes(4)
    (folder / WEIGHTS_FILE).write_bytes(data)
    assert faults(list(checks_of(folder, base).values()))


def test_scale_is_stated_for_readers_that_ignore_rank_stabilisation(
    base: Path, tmp_path: Path
) -> None:
    folder = write_adapter(tmp_path / "a", base, rank=16, lora_alpha=16, use_rslora=True)
    assert checks_of(folder, base)["scale"].figure == 4.0
    assert "sqrt" in checks_of(folder, base)["scale"].detail
    mixed = write_adapter(tmp_path / "b", base, rank=16, alpha_pattern={"q_proj": 16})
    assert checks_of(mixed, base)["scale"].figure == "1 to 2"


def test_an_untied_head_may_be_adapted(tmp_path: Path) -> None:
    base = write_tiny_base(tmp_path / "base", "qwen3")
    folder = write_adapter(tmp_path / "adapter", base, targets=("lm_head", "q_proj"))
    assert not faults(list(checks_of(folder, base).values()))


def test_a_tied_head_may_not_be_adapted_even_if_the_base_stores_it(
    base: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "base"
    shutil.copytree(base, copy)
    save_file({"lm_head.weight": torch.ones(400, 64)}, copy / "second.safetensors")
    folder = write_adapter(tmp_path / "adapter", copy, targets=("lm_head", "q_proj"))
    fault = only_fault(folder, copy)
    assert fault.id == "no-embeddings"
    assert "tied" in fault.detail


def test_rank_patterns_are_honoured(base: Path, tmp_path: Path) -> None:
    tensors = lora_tensors(base, 4)
    tensors[lora_key(Q0, "A")] = np.ones((2, 64), np.float32)
    tensors[lora_key(Q0, "B")] = np.ones((64, 2), np.float32)
    folder = write_adapter(
        tmp_path / "adapter", base, tensors=tensors, rank_pattern={r"0\.self_attn\.q_proj": 2}
    )
    assert not faults(list(checks_of(folder, base).values()))


def test_dora_magnitudes_are_part_of_the_adapter(base: Path, tmp_path: Path) -> None:
    tensors = lora_tensors(base, 4, ("q_proj",))
    for name in list(tensors):
        if name.endswith("lora_B.weight"):
            magnitude = name.replace("lora_B.weight", "lora_magnitude_vector")
            tensors[magnitude] = np.ones(tensors[name].shape[0], np.float32)
    folder = write_adapter(
        tmp_path / "adapter", base, targets=("q_proj",), tensors=tensors, use_dora=True
    )
    checks = checks_of(folder, base)
    assert not faults(list(checks.values()))
    assert checks["config-values"].detail == "DoRA"
