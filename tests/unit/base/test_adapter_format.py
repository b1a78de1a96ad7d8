"""The written facts of PEFT 0.9.0, held against the library where it is installed."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import peft
import pytest
import torch

from pipeline.base.adapter_format import (
    ADAPTER_FILES,
    CONFIG_KEYS,
    KEY_PREFIX,
    LORA_CONFIG_KEYS,
    PEFT_TYPES,
    adapter_config,
    lora_config,
    lora_key,
    lora_scale,
)

CONFIG = lora_config(
    base_path="/models/x", rank=8, alpha=16, dropout=0.0, rslora=True, target_modules=["v", "q"]
)


class Toy(torch.nn.Module):
    """Something with linear layers named as in the config."""

    def __init__(self) -> None:
        super().__init__()
        self.config = {"model_type": "toy"}
        self.q, self.v = torch.nn.Linear(4, 4), torch.nn.Linear(4, 6)


@pytest.mark.stack
def test_the_closed_list_is_that_of_the_library() -> None:
    known = {field.name for field in dataclasses.fields(peft.LoraConfig)}
    if peft.__version__ == "0.9.0":
        assert known == LORA_CONFIG_KEYS
    else:
        assert known >= LORA_CONFIG_KEYS


CLASSES = {
    "dora": peft.LoraConfig,
    "adalora": peft.AdaLoraConfig,
    "ia3": peft.IA3Config,
    "loha": peft.LoHaConfig,
    "lokr": peft.LoKrConfig,
    "oft": peft.OFTConfig,
}


@pytest.mark.stack
@pytest.mark.parametrize("method", CLASSES)
def test_configs_of_every_method_are_those_of_the_library(method: str, tmp_path: Path) -> None:
    config = adapter_config(
        method, base_path="/models/x", rank=6, alpha=6, dropout=0.0, rslora=False,
        target_modules=["down_proj", "q_proj"], rank_pattern={}, alpha_pattern={},
    )  # fmt: skip
    assert config.keys() == CONFIG_KEYS[PEFT_TYPES[method]]
    assert config.get("use_dora", False) is (method == "dora")
    known = {field.name for field in dataclasses.fields(CLASSES[method])}
    if peft.__version__ == "0.9.0":
        assert known == config.keys()
    if method == "oft" and peft.__version__ != "0.9.0":
        return
    assert known >= config.keys()
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    read = CLASSES[method].from_pretrained(str(tmp_path))
    assert set(read.target_modules) == {"q_proj", "down_proj"}
    assert read.peft_type == config["peft_type"]


def test_our_config_has_every_key_and_no_other() -> None:
    assert set(CONFIG) == LORA_CONFIG_KEYS
    assert json.loads(json.dumps(CONFIG)) == CONFIG


@pytest.mark.stack
def test_the_library_reads_our_config(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps(CONFIG))
    read = peft.LoraConfig.from_pretrained(str(tmp_path))
    assert (read.r, read.lora_alpha, read.use_rslora) == (8, 16, True)
    assert set(read.target_modules) == {"q", "v"}


@pytest.mark.stack
@pytest.mark.parametrize("rslora", [False, True])
def test_names_and_scale_are_those_of_the_library(rslora: bool) -> None:
    settings = peft.LoraConfig(r=8, lora_alpha=16, use_rslora=rslora, target_modules=["q", "v"])
    model = peft.get_peft_model(Toy(), settings)
    saved = set(peft.get_peft_model_state_dict(model))
    assert saved == {lora_key(module, side) for module in "qv" for side in "AB"}
    scale = model.base_model.model.q.scaling["default"]
    assert lora_scale(16, 8, rslora) == pytest.approx(scale)


def test_scale() -> None:
    assert lora_scale(16, 16, rslora=False) == 1.0
    assert lora_scale(16, 16, rslora=True) == 4.0
    assert lora_scale(32, 2, rslora=True) == pytest.approx(32 / math.sqrt(2))


def test_names() -> None:
    assert lora_key("layers.0.q", "A") == KEY_PREFIX + "layers.0.q.lora_A.weight"
    assert sorted(ADAPTER_FILES) == ["adapter_config.json", "adapter_model.safetensors"]


def test_targets_are_sorted_so_that_equal_runs_write_equal_files() -> None:
    assert CONFIG["target_modules"] == ["q", "v"]
