"""How an adapter lies on the disk: names, keys, config, for every method. No torch.

Facts of PEFT 0.9.0 (src/peft/tuners/*/config.py, */layer.py, utils/save_and_load.py):
its loader hands every key of adapter_config.json to the config class, so that an
unknown key is a TypeError, and loads weights non-strictly, so that a misspelt
tensor name is silently ignored. Hence the closed lists here. Training writes by
them whatever PEFT is installed; the contract judges by them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

WEIGHTS_FILE = "adapter_model.safetensors"
CONFIG_FILE = "adapter_config.json"
ADAPTER_FILES = (CONFIG_FILE, WEIGHTS_FILE)
KEY_PREFIX = "base_model.model."

PEFT_TYPES = {
    "lora": "LORA", "dora": "LORA", "adalora": "ADALORA", "ia3": "IA3", "loha": "LOHA",
    "lokr": "LOKR", "oft": "OFT",
}  # fmt: skip
"""`train.method` → `peft_type`; rsLoRA and DoRA are settings of LoRA."""

COMMON_KEYS = frozenset(
    "peft_type auto_mapping base_model_name_or_path revision task_type inference_mode "
    "target_modules modules_to_save".split()
)
"""Keys that every config class of PEFT 0.9.0 with target modules accepts."""

LORA_CONFIG_KEYS = COMMON_KEYS | frozenset(
    "r lora_alpha lora_dropout fan_in_fan_out bias use_rslora init_lora_weights "
    "layers_to_transform layers_pattern rank_pattern alpha_pattern megatron_config "
    "megatron_core loftq_config use_dora".split()
)
"""Every key that PEFT 0.9.0's LoraConfig accepts."""

_LYCORIS = COMMON_KEYS | frozenset(
    "r module_dropout init_weights layers_to_transform layers_pattern rank_pattern "
    "alpha_pattern".split()
)
_HADAMARD = _LYCORIS | frozenset({"alpha", "rank_dropout", "use_effective_conv2d"})

_SCHEDULE = "target_r init_r tinit tfinal deltaT beta1 beta2 orth_reg_weight total_step"

CONFIG_KEYS: dict[str, frozenset[str]] = {
    "LORA": LORA_CONFIG_KEYS,
    "ADALORA": LORA_CONFIG_KEYS | frozenset(_SCHEDULE.split()),
    "IA3": COMMON_KEYS | {"feedforward_modules", "fan_in_fan_out", "init_ia3_weights"},
    "LOHA": _HADAMARD,
    "LOKR": _HADAMARD | {"decompose_both", "decompose_factor"},
    "OFT": _LYCORIS | {"coft", "eps", "block_share"},
}
"""`peft_type` → every key that its config class of PEFT 0.9.0 accepts."""

COVERED = tuple(sorted(CONFIG_KEYS))
"""The types; a tuple, since what a foreign file names may be no text at all."""

PARTS: dict[str, tuple[str, ...]] = {
    "LORA": ("lora_A.weight", "lora_B.weight", "lora_magnitude_vector"),
    "ADALORA": ("lora_A", "lora_B", "lora_E"),
    "IA3": ("ia3_l",),
    "LOHA": ("hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b"),
    "LOKR": ("lokr_w1", "lokr_w1_a", "lokr_w1_b", "lokr_w2", "lokr_w2_a", "lokr_w2_b"),
    "OFT": ("oft_r",),
}
"""`peft_type` → last parts of the tensor names that PEFT 0.9.0 gives linear layers."""

FEEDFORWARD = ("down_proj",)
"""Layers whose input IA³ scales, not their output (arXiv 2205.05638, section 3.3)."""

ADALORA_BETAS = (0.85, 0.85)
"""Smoothing of sensitivity and of its uncertainty (arXiv 2303.10512, section 4.1)."""
ORTHOGONALITY = 0.5
"""Weight of AdaLoRA's regulariser; the default of PEFT and of the paper's code."""
OFT_EPSILON = 6e-5
"""PEFT's default; read with `coft` alone, which is off."""

_NAMED = re.compile(
    r"(\.(?:lora_[ABE]|ia3_l|hada_(?:t[12]|w[12]_[ab])|lokr_(?:t2|w[12](?:_[ab])?)|oft_r))"
    r"\.(?!weight$)[^.]+(\.weight)?$"
    r"|(\.lora_magnitude_vector)\..+$"
)


def file_name(parameter: str) -> str:
    """A parameter's name as PEFT 0.9.0 writes it: without the adapter's own name.

    `…q_proj.lora_A.default.weight` → `…q_proj.lora_A.weight`; AdaLoRA's
    `…q_proj.lora_A.default` → `…q_proj.lora_A`; the magnitude of DoRA, which newer
    versions keep in a layer of its own, → `…q_proj.lora_magnitude_vector`.
    """
    return _NAMED.sub(lambda m: m[3] if m[3] else f"{m[1]}{m[2] or ''}", parameter)


def lora_key(module: str, side: str) -> str:
    """Tensor name of one half of an update; `side` is "A" or "B"."""
    return f"{KEY_PREFIX}{module}.lora_{side}.weight"


def lora_scale(alpha: int, rank: int, rslora: bool) -> float:
    """Factor on B·A: alpha/rank, or alpha/√rank for rsLoRA (arXiv 2312.03732)."""
    return alpha / math.sqrt(rank) if rslora else alpha / rank


def target_rank(rank: int) -> int:
    """Mean rank at which AdaLoRA arrives: two thirds of the one it starts from.

    The paper starts 1.5 times above its goal (arXiv 2303.10512, section 5.1).
    """
    return max(1, round(rank * 2 / 3))


def adapter_config(
    method: str,
    *,
    base_path: str,
    rank: int,
    alpha: int,
    dropout: float,
    rslora: bool,
    target_modules: list[str],
    rank_pattern: Mapping[str, int] | None = None,
    alpha_pattern: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """adapter_config.json of `train.method`, in exactly the keys that PEFT 0.9.0 knows.

    Args:
        method: as in params.yaml; the other arguments are its keys there. What a
            method has no key for is not written (method_rules.py refuses it before).
    """
    kind = PEFT_TYPES[method]
    config: dict[str, Any] = {
        "peft_type": kind,
        "auto_mapping": None,
        "base_model_name_or_path": base_path,
        "revision": None,
        "task_type": "CAUSAL_LM",
        "inference_mode": True,
        "target_modules": sorted(target_modules),
        "modules_to_save": None,
    }
    patterns = {
        "rank_pattern": dict(sorted((rank_pattern or {}).items())),
        "alpha_pattern": dict(sorted((alpha_pattern or {}).items())),
    }
    if kind == "IA3":
        own = _ia3(target_modules)
    elif kind in ("LORA", "ADALORA"):
        own = _lora(rank, alpha, dropout, rslora, method == "dora", patterns)
        own |= _adalora(rank) if kind == "ADALORA" else {}
    else:
        own = _lycoris(kind, rank, alpha, patterns)
    return {**config, **own}


def lora_config(**settings: Any) -> dict[str, Any]:
    """`adapter_config` of plain LoRA."""
    return adapter_config("lora", **settings)


def _lora(
    rank: int, alpha: int, dropout: float, rslora: bool, dora: bool, patterns: dict[str, Any]
) -> dict[str, Any]:
    return {
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "fan_in_fan_out": False,
        "bias": "none",
        "use_rslora": rslora,
        "init_lora_weights": True,
        "layers_to_transform": None,
        "layers_pattern": None,
        **patterns,
        "megatron_config": None,
        "megatron_core": "megatron.core",
        "loftq_config": {},
        "use_dora": dora,
    }


def _adalora(rank: int) -> dict[str, Any]:
    """What AdaLoRA has beyond LoRA.

    All triplets are written, the masked ones with a zero in E, and no rank pattern:
    by it, PEFT 0.9.0 would cut the tensors to size, which fails where a module kept
    none. The schedule is over when the file is read; newer versions want one that
    is possible, so the shortest is written.
    """
    return {
        "rank_pattern": None,
        "init_r": rank,
        "target_r": target_rank(rank),
        "tinit": 0,
        "tfinal": 0,
        "deltaT": 1,
        "beta1": ADALORA_BETAS[0],
        "beta2": ADALORA_BETAS[1],
        "orth_reg_weight": ORTHOGONALITY,
        "total_step": 1,
    }


def _ia3(target_modules: list[str]) -> dict[str, Any]:
    return {
        "feedforward_modules": sorted(set(target_modules) & set(FEEDFORWARD)),
        "fan_in_fan_out": False,
        "init_ia3_weights": True,
    }


def _lycoris(kind: str, rank: int, alpha: int, patterns: dict[str, Any]) -> dict[str, Any]:
    config = {
        "r": rank,
        "module_dropout": 0.0,
        "init_weights": True,
        "layers_to_transform": None,
        "layers_pattern": None,
        **patterns,
    }
    if kind == "OFT":
        return {**config, "coft": False, "eps": OFT_EPSILON, "block_share": False}
    config |= {"alpha": alpha, "rank_dropout": 0.0, "use_effective_conv2d": False}
    return config | ({"decompose_both": False, "decompose_factor": -1} if kind == "LOKR" else {})
