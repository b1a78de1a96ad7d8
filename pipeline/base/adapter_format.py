"""How a LoRA adapter lies on the disk: names, keys, config. No torch.

Facts of PEFT 0.9.0 (src/peft/tuners/lora/config.py, utils/save_and_load.py):
its loader hands every key of adapter_config.json to the config class, so that an
unknown key is a TypeError, and loads weights non-strictly, so that a misspelt
tensor name is silently ignored. Hence the closed lists here.
"""

from __future__ import annotations

import math
from typing import Any

WEIGHTS_FILE = "adapter_model.safetensors"
CONFIG_FILE = "adapter_config.json"
ADAPTER_FILES = (CONFIG_FILE, WEIGHTS_FILE)
KEY_PREFIX = "base_model.model."

LORA_CONFIG_KEYS = frozenset(
    "peft_type auto_mapping base_model_name_or_path revision task_type inference_mode r "
    "target_modules lora_alpha lora_dropout fan_in_fan_out bias use_rslora modules_to_save "
    "init_lora_weights layers_to_transform layers_pattern rank_pattern alpha_pattern "
    "megatron_config megatron_core loftq_config use_dora".split()
)
"""Every key that PEFT 0.9.0's LoraConfig accepts."""


def lora_key(module: str, side: str) -> str:
    """Tensor name of one half of an update; `side` is "A" or "B"."""
    return f"{KEY_PREFIX}{module}.lora_{side}.weight"


def lora_scale(alpha: int, rank: int, rslora: bool) -> float:
    """Factor on B·A: alpha/rank, or alpha/√rank for rsLoRA (arXiv 2312.03732)."""
    return alpha / math.sqrt(rank) if rslora else alpha / rank


def lora_config(
    *,
    base_path: str,
    rank: int,
    alpha: int,
    dropout: float,
    rslora: bool,
    target_modules: list[str],
) -> dict[str, Any]:
    """adapter_config.json of a plain LoRA adapter, in keys that PEFT 0.9.0 knows."""
    return {
        "peft_type": "LORA",
        "auto_mapping": None,
        "base_model_name_or_path": base_path,
        "revision": None,
        "task_type": "CAUSAL_LM",
        "inference_mode": True,
        "r": rank,
        "target_modules": sorted(target_modules),
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "fan_in_fan_out": False,
        "bias": "none",
        "use_rslora": rslora,
        "modules_to_save": None,
        "init_lora_weights": True,
        "layers_to_transform": None,
        "layers_pattern": None,
        "rank_pattern": {},
        "alpha_pattern": {},
        "megatron_config": None,
        "megatron_core": "megatron.core",
        "loftq_config": {},
        "use_dora": False,
    }
