from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.base.adapter_format import CONFIG_FILE, LORA_CONFIG_KEYS, WEIGHTS_FILE
from pipeline.base.artifacts import sha256_file
from pipeline.base.errors import UserError
from pipeline.release.adapter import bare_key, export_folder
from tests.support.adapters import lora_tensors, write_adapter

BARE = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


@pytest.mark.parametrize(
    "wrapped",
    [
        BARE,
        BARE.replace("lora_A", "lora_A.default"),
        f"module.{BARE}",
        f"_orig_mod.module.{BARE}",
        f"module._orig_mod.{BARE}",
        BARE.replace("layers.0", "layers.0._orig_mod"),
        BARE.replace("layers.0.", "_fsdp_wrapped_module.layers.0._checkpoint_wrapped_module."),
    ],
)
def test_wrappers_and_adapter_names_leave_the_key(wrapped: str) -> None:
    assert bare_key(wrapped) == BARE


def test_magnitudes_are_named_as_0_9_0_names_them() -> None:
    stem = "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector"
    assert bare_key(f"{stem}.default.weight") == stem
    assert bare_key(f"{stem}.weight") == stem
    assert bare_key(stem) == stem


def test_other_keys_stay() -> None:
    assert bare_key("model.module_list.0.weight") == "model.module_list.0.weight"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_export_is_the_cast_of_torch(dtype: str, base: Path, tmp_path: Path) -> None:
    source = write_adapter(tmp_path / "source", base)
    done = export_folder(source, tmp_path / "out" / "adapter", dtype)
    before = load_file(source / WEIGHTS_FILE)
    after = load_file(tmp_path / "out" / "adapter" / WEIGHTS_FILE)
    assert after.keys() == before.keys()
    largest = 0.0
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor.to(getattr(torch, dtype)))
        largest = max(largest, float((after[name].float() - tensor).abs().max()))
    assert done["max_rounding_error"] == largest
    assert done["max_relative_rounding_error"] <= {"bfloat16": 2**-8, "float16": 2**-11}.get(
        dtype, 0
    )


def test_the_record_counts_and_hashes(base: Path, tmp_path: Path) -> None:
    source = write_adapter(
        tmp_path / "source", base, rank=4, peft_version="0.21.2", eva_config=None
    )
    target = tmp_path / "out"
    done = export_folder(source, target, "bfloat16")
    elements = sum(value.size for value in lora_tensors(base, 4).values())
    assert (done["rank"], done["elements"], done["scale"]) == (4, elements, 2.0)
    assert done["dropped_config_keys"] == ["eva_config", "peft_version"]
    assert done["bytes"] == sum(path.stat().st_size for path in target.iterdir())
    assert done["files"][WEIGHTS_FILE] == sha256_file(target / WEIGHTS_FILE)
    assert sorted(path.name for path in target.iterdir()) == [CONFIG_FILE, WEIGHTS_FILE]
    assert json.loads((target / CONFIG_FILE).read_text()).keys() <= LORA_CONFIG_KEYS


def test_the_same_source_gives_the_same_bytes_and_replaces_an_earlier_export(
    base: Path, tmp_path: Path
) -> None:
    source = write_adapter(tmp_path / "source", base)
    first = export_folder(source, tmp_path / "out", "bfloat16")
    assert export_folder(source, tmp_path / "out", "bfloat16") == first


def test_all_linear_is_spelt_out(base: Path, tmp_path: Path) -> None:
    source = write_adapter(tmp_path / "source", base, target_modules="all-linear")
    export_folder(source, tmp_path / "out", "bfloat16")
    config = json.loads((tmp_path / "out" / CONFIG_FILE).read_text())
    assert config["target_modules"] == ["down_proj", "q_proj"]


def test_patterns_give_a_range_of_scales(base: Path, tmp_path: Path) -> None:
    source = write_adapter(tmp_path / "source", base, alpha_pattern={"q_proj": 16})
    assert export_folder(source, tmp_path / "out", "float32")["scale"] == [2.0, 4.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_replication": [[0, 4], [2, 5]]}, "`layer_replication` = "),
        ({"lora_bias": True}, "`lora_bias` = true"),
        ({"modules_to_save": ["lm_head"]}, "`modules_to_save` = "),
        ({"peft_type": "VERA"}, '`peft_type` = "VERA"'),
    ],
)
def test_what_0_9_0_would_lose_is_refused(
    changes: dict[str, Any], message: str, base: Path, tmp_path: Path
) -> None:
    source = write_adapter(tmp_path / "source", base, **changes)
    with pytest.raises(UserError, match=message):
        export_folder(source, tmp_path / "out", "bfloat16")


def _spoilt(base: Path, value: float) -> dict[str, Any]:
    tensors = lora_tensors(base, 4)
    next(iter(tensors.values()))[0, 0] = value
    return tensors


def test_values_that_cannot_be_stored_are_refused(base: Path, tmp_path: Path) -> None:
    nan = write_adapter(tmp_path / "nan", base, tensors=_spoilt(base, float("nan")))
    with pytest.raises(UserError, match="is not finite"):
        export_folder(nan, tmp_path / "out", "bfloat16")
    large = write_adapter(tmp_path / "large", base, tensors=_spoilt(base, 1e6))
    with pytest.raises(UserError, match=r"1e\+06, too large for F16.*float32"):
        export_folder(large, tmp_path / "out", "float16")
    assert not list((tmp_path / "out").iterdir())


def test_sources_that_hold_no_whole_adapter_are_refused(base: Path, tmp_path: Path) -> None:
    source = write_adapter(tmp_path / "source", base)
    save_file({}, source / WEIGHTS_FILE)
    with pytest.raises(UserError, match="holds no tensor"):
        export_folder(source, tmp_path / "out", "bfloat16")
    save_file({BARE: torch.zeros(0)}, source / WEIGHTS_FILE)
    with pytest.raises(UserError, match=r"F32\[0\]"):
        export_folder(source, tmp_path / "out", "bfloat16")
    save_file({"model.norm.weight": torch.zeros(1)}, source / WEIGHTS_FILE)
    with pytest.raises(UserError, match="no tensor of an adapter"):
        export_folder(source, tmp_path / "out", "bfloat16")
    (source / WEIGHTS_FILE).write_bytes(b"torn")
    with pytest.raises(UserError, match="damaged"):
        export_folder(source, tmp_path / "out", "bfloat16")
    (source / WEIGHTS_FILE).unlink()
    with pytest.raises(UserError, match="file not found"):
        export_folder(source, tmp_path / "out", "bfloat16")


def test_two_names_that_become_one_are_refused(base: Path, tmp_path: Path) -> None:
    tensors = {name: np.ones((1, 1), np.float32) for name in (BARE, f"module.{BARE}")}
    source = write_adapter(tmp_path / "source", base, tensors=tensors)
    with pytest.raises(UserError, match="two tensors are named"):
        export_folder(source, tmp_path / "out", "bfloat16")


def test_a_folder_with_other_files_is_not_written_into(base: Path, tmp_path: Path) -> None:
    source = write_adapter(tmp_path / "source", base)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").touch()
    with pytest.raises(UserError, match=r"thesis\.tex"):
        export_folder(source, tmp_path / "out", "bfloat16")
