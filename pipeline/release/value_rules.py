"""What each key of adapter_config.json may hold, for every type of the contract.

Pure tables; judged by adapter_config.py. A key that a type does not have is refused
before, by its name (adapter_format.CONFIG_KEYS).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pipeline.base.adapter_format import COVERED

ALL_LINEAR = "all-linear"
MAX_ALPHA = 1_000_000
MAX_PLACE_CHARACTERS = 4096
"""A path of Linux is not longer."""

Rules = dict[str, tuple[Callable[[Any], bool], str]]
"""Key → its test, and in words what passes it."""


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_positive_int(value: Any) -> bool:
    return _is_int(value) and value > 0


def _is_alpha(value: Any) -> bool:
    return (_is_int(value) or isinstance(value, float)) and 0 < value <= MAX_ALPHA


def _is_share(value: Any) -> bool:
    return (_is_int(value) or isinstance(value, float)) and 0 <= value < 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_place(value: Any) -> bool:
    """A local path or a name such as "owner/model": nothing that a reader would fetch."""
    return (
        _is_text(value)
        and len(value) <= MAX_PLACE_CHARACTERS
        and value.isprintable()
        and "://" not in value
        and not value.startswith(("\\\\", "//", "~"))
    )


def _is_revision(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\w[\w./-]{0,254}", value) is not None


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\w[\w.]*", value) is not None


def _is_list_of(kind: Callable[[Any], bool], value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(kind(item) for item in value)


def _is_targets(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value) and value.lower() != ALL_LINEAR
    return _is_list_of(_is_text, value)


def _is_pattern_map(kind: Callable[[Any], bool], value: Any) -> bool:
    return isinstance(value, dict) and all(kind(item) for item in value.values())


def _is_count(value: Any) -> bool:
    return _is_int(value) and value >= 0


def _is_amount(value: Any) -> bool:
    return (_is_int(value) or isinstance(value, float)) and 0 <= value < float("inf")


def _is_names(value: Any) -> bool:
    return value == [] or _is_list_of(_is_text, value)


FALSE = (lambda v: v is False, "false")
NULL = (lambda v: v is None, "null")
FLAG = (lambda v: isinstance(v, bool), "true or false")
COUNT = (_is_count, "a number of steps")
RANK = (_is_positive_int, "a positive integer")
ALPHA = (_is_alpha, "a positive number")
SHARE = (_is_share, "a number in [0, 1)")
EMPTY = (lambda v: v in (None, {}), "{}: this type has no such pattern")
FLAT = (lambda v: v is False, "false: weights of the base lie as [out, in]")

COMMON: Rules = {
    "peft_type": (lambda v: v in COVERED, " or ".join(COVERED)),
    "task_type": (lambda v: v == "CAUSAL_LM", '"CAUSAL_LM"'),
    "base_model_name_or_path": (_is_place, "a local path or a name, not an address"),
    "revision": (lambda v: v is None or _is_revision(v), "null or a name"),
    "auto_mapping": (lambda v: v is None, "null: it names classes to import"),
    "inference_mode": FLAG,
    "target_modules": (_is_targets, f"a list of module names or a pattern, not {ALL_LINEAR!r}"),
    "modules_to_save": (lambda v: v is None, "null: full modules belong to the base"),
}

LAYERS: Rules = {
    "layers_to_transform": (
        lambda v: v is None or _is_int(v) or _is_list_of(_is_int, v), "null or layer numbers",
    ),
    "layers_pattern": (
        lambda v: v is None or _is_name(v) or _is_list_of(_is_name, v), "null or names",
    ),
    "rank_pattern": (
        lambda v: _is_pattern_map(_is_positive_int, v), "an object of positive integers",
    ),
    "alpha_pattern": (
        lambda v: _is_pattern_map(_is_alpha, v), "an object of positive numbers",
    ),
}  # fmt: skip

LORA: Rules = {
    **LAYERS,
    "r": RANK,
    "lora_alpha": ALPHA,
    "lora_dropout": SHARE,
    "fan_in_fan_out": FLAT,
    "bias": (lambda v: v == "none", '"none": biases belong to the base'),
    "use_rslora": FLAG,
    "use_dora": FLAG,
    "init_lora_weights": FLAG,
    "megatron_config": NULL,
    "megatron_core": (lambda v: v in (None, "megatron.core"), '"megatron.core": it is imported'),
    "loftq_config": (lambda v: v in (None, {}), "{}"),
}

ADALORA: Rules = {
    **LORA,
    "rank_pattern": (lambda v: v is None, "null: PEFT 0.9.0 fails where a module kept no rank"),
    "alpha_pattern": EMPTY,
    "use_rslora": FALSE,
    "use_dora": FALSE,
    "init_r": RANK,
    "target_r": RANK,
    "tinit": COUNT,
    "tfinal": COUNT,
    "deltaT": RANK,
    "beta1": SHARE,
    "beta2": SHARE,
    "orth_reg_weight": (_is_amount, "a number"),
    "total_step": (lambda v: v is None or _is_positive_int(v), "null or a number of steps"),
}

IA3: Rules = {
    "feedforward_modules": (_is_names, "a list of module names"),
    "fan_in_fan_out": FLAT,
    "init_ia3_weights": FLAG,
}

LOHA: Rules = {
    **LAYERS,
    "r": RANK,
    "alpha": ALPHA,
    "rank_dropout": SHARE,
    "module_dropout": SHARE,
    "init_weights": FLAG,
    "use_effective_conv2d": FLAG,
}

LOKR: Rules = {
    **LOHA,
    "decompose_both": FALSE,
    "decompose_factor": (lambda v: v == -1, "-1"),
}

OFT: Rules = {
    **LAYERS,
    "r": RANK,
    "alpha_pattern": EMPTY,
    "module_dropout": SHARE,
    "init_weights": FLAG,
    "coft": FALSE,
    "eps": (_is_amount, "a number"),
    "block_share": FALSE,
}

VALUE_RULES: dict[str, Rules] = {
    "LORA": {**COMMON, **LORA},
    "ADALORA": {**COMMON, **ADALORA},
    "IA3": {**COMMON, **IA3},
    "LOHA": {**COMMON, **LOHA},
    "LOKR": {**COMMON, **LOKR},
    "OFT": {**COMMON, **OFT},
}
"""`peft_type` → the rules of its keys."""

REQUIRED = ("peft_type", "task_type", "base_model_name_or_path", "target_modules")
REQUIRED_KEYS: dict[str, tuple[str, ...]] = {
    "LORA": (*REQUIRED, "r", "lora_alpha"),
    "ADALORA": (*REQUIRED, "init_r", "lora_alpha"),
    "IA3": (*REQUIRED, "feedforward_modules"),
    "LOHA": (*REQUIRED, "r", "alpha"),
    "LOKR": (*REQUIRED, "r", "alpha"),
    "OFT": (*REQUIRED, "r"),
}
"""Keys that a config must spell out; PEFT's defaults would hide a loss of them."""
