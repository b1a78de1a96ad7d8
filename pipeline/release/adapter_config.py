"""adapter_config.json as PEFT 0.9.0 reads it: keys, values, and what they select.

Pure: a parsed config goes in, verdicts and selections come out. The rules of
selection are those of PEFT 0.9.0 (tuners_utils.py `check_target_module_exists`,
lora/model.py `_create_and_replace`), quirks included, because that loader decides
in the end which module gets which rank.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from pipeline.base.adapter_format import LORA_CONFIG_KEYS, lora_scale
from pipeline.base.errors import UserError

Config = dict[str, Any]

PEFT_TYPE = "LORA"
ALL_LINEAR = "all-linear"
REQUIRED_KEYS = (
    "peft_type", "task_type", "base_model_name_or_path", "r", "lora_alpha", "target_modules",
)  # fmt: skip
"""Keys that a config must spell out; PEFT's defaults would hide a loss of them."""

MAX_ALPHA = 1_000_000
MAX_PATTERN_CHARACTERS = 1000
MAX_PATTERN_REPEATS = 5
"""Bounds on regular expressions from a foreign file, which could match for ever."""

NEUTRAL_VALUES: dict[str, tuple[Any, ...]] = {
    "alora_invocation_tokens": (None,),
    "arrow_config": (None,),
    "corda_config": (None,),
    "ensure_weight_tying": (False,),
    "eva_config": (None,),
    "exclude_modules": (None, []),
    "kasa_config": (None,),
    "layer_replication": (None, []),
    "lora_bias": (False,),
    "lora_ga_config": (None,),
    "monteclora_config": (None,),
    "target_parameters": (None, []),
    "trainable_token_indices": (None, [], {}),
    "use_bdlora": (None, False),
    "use_qalora": (False,),
    "velora_config": (None,),
}
"""Keys of later PEFT versions and the values at which they change nothing."""

NEUTRAL_AT_ANY_VALUE = ("peft_version", "qalora_group_size")
"""The group size is read with `use_qalora` alone, which is refused when it is on."""


def _same(left: Any, right: Any) -> bool:
    """Equality of JSON values, in which false is not 0."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def is_neutral(config: Config, key: str) -> bool:
    """Whether a key that PEFT 0.9.0 does not know changes nothing at its value."""
    if key in NEUTRAL_AT_ANY_VALUE:
        return True
    return any(_same(config[key], neutral) for neutral in NEUTRAL_VALUES.get(key, ()))


def restrict(config: Config, where: str) -> tuple[Config, list[str]]:
    """The config in keys of PEFT 0.9.0, and the newer keys that were dropped.

    Raises:
        UserError: it is not LoRA; or naming a key that 0.9.0 does not know and its
            value, when dropping it would change what the adapter does.
    """
    if config.get("peft_type") != PEFT_TYPE:
        raise UserError(
            f"{where}: `peft_type` = {json.dumps(config.get('peft_type'))}", "Export LoRA adapters."
        )
    newer = sorted(config.keys() - LORA_CONFIG_KEYS)
    for key in newer:
        if not is_neutral(config, key):
            raise UserError(
                f"{where}: `{key}` = {json.dumps(config[key])} means nothing to PEFT 0.9.0",
                f"Train without `{key}`: dropping it would change what the adapter does.",
            )
    return {key: config[key] for key in sorted(config.keys() & LORA_CONFIG_KEYS)}, newer


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


VALUE_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "peft_type": (lambda v: v == PEFT_TYPE, '"LORA"'),
    "task_type": (lambda v: v == "CAUSAL_LM", '"CAUSAL_LM"'),
    "base_model_name_or_path": (_is_text, "the path or name of the base"),
    "revision": (lambda v: v is None or _is_text(v), "null or a name"),
    "auto_mapping": (lambda v: v is None, "null: it names classes to import"),
    "inference_mode": (lambda v: isinstance(v, bool), "true or false"),
    "r": (_is_positive_int, "a positive integer"),
    "lora_alpha": (_is_alpha, "a positive number"),
    "lora_dropout": (_is_share, "a number in [0, 1)"),
    "target_modules": (_is_targets, f"a list of module names or a pattern, not {ALL_LINEAR!r}"),
    "fan_in_fan_out": (lambda v: v is False, "false: weights of the base lie as [out, in]"),
    "bias": (lambda v: v == "none", '"none": biases belong to the base'),
    "use_rslora": (lambda v: isinstance(v, bool), "true or false"),
    "use_dora": (lambda v: isinstance(v, bool), "true or false"),
    "modules_to_save": (lambda v: v is None, "null: full modules belong to the base"),
    "init_lora_weights": (lambda v: isinstance(v, bool), "true or false"),
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
    "megatron_config": (lambda v: v is None, "null"),
    "megatron_core": (lambda v: v in (None, "megatron.core"), '"megatron.core": it is imported'),
    "loftq_config": (lambda v: v in (None, {}), "{}"),
}  # fmt: skip
"""Key → its test, and in words what passes it."""


def value_fault(config: Config) -> str | None:
    """The first value that the contract refuses, in words; None when all are sane."""
    missing = [key for key in REQUIRED_KEYS if key not in config]
    if missing:
        return f"`{missing[0]}` is missing"
    for key, (accepts, wanted) in VALUE_RULES.items():
        if key in config and not accepts(config[key]):
            return f"`{key}` = {json.dumps(config[key])}, expected {wanted}"
    if isinstance(config["target_modules"], str):
        for key in ("layers_to_transform", "layers_pattern"):
            if config.get(key) is not None:
                return f"`{key}` cannot be used when `target_modules` is a pattern"
    return next((fault for fault in map(_pattern_fault, _patterns(config)) if fault), None)


def _patterns(config: Config) -> list[str]:
    """Every string of the config that PEFT uses as a regular expression."""
    keys = [*config.get("rank_pattern", {}), *config.get("alpha_pattern", {})]
    wanted = config["target_modules"]
    return [rf"\.{key}$" for key in keys] + ([wanted] if isinstance(wanted, str) else [])


def _pattern_fault(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as error:
        return f"pattern {pattern!r} is not a regular expression ({error})"
    repeats = len(re.findall(r"[*+{]", pattern))
    if (
        len(pattern) > MAX_PATTERN_CHARACTERS
        or repeats > MAX_PATTERN_REPEATS
        or re.search(r"\)[*+{]", pattern)
    ):
        return f"pattern {pattern[:80]!r} repeats groups or repeats too much to be matched safely"
    return None


def targets(config: Config, module: str) -> bool:
    """Whether PEFT 0.9.0 adapts the module of this dotted name."""
    wanted = config["target_modules"]
    if isinstance(wanted, str):
        return re.fullmatch(wanted, module) is not None
    if module in wanted:
        return True
    if not any(module.endswith(f".{entry}") for entry in wanted):
        return False
    layers = config.get("layers_to_transform")
    if layers is None or layers == []:
        return True
    index = _layer_index(config.get("layers_pattern"), module)
    return index is not None and (index == layers if isinstance(layers, int) else index in layers)


def _layer_index(patterns: str | list[str] | None, module: str) -> int | None:
    if not patterns:
        found = re.match(r".*\.[^.]*\.(\d+)\.", module)
        return int(found.group(1)) if found else None
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        found = re.match(rf".*\.{pattern}\.(\d+)\.", module)
        if found:
            return int(found.group(1))
    return None


def _pattern_key(config: Config, module: str) -> str:
    """The pattern that decides on a module: the first that matches, ranks before alphas."""
    keys = [*config.get("rank_pattern", {}), *config.get("alpha_pattern", {})]
    return next((key for key in keys if re.match(rf".*\.{key}$", module)), module)


def rank_of(config: Config, module: str) -> int:
    """Rank that PEFT 0.9.0 gives a module."""
    return int(config.get("rank_pattern", {}).get(_pattern_key(config, module), config["r"]))


def scale_of(config: Config, module: str) -> float:
    """Factor on B·A that PEFT 0.9.0 applies to a module."""
    patterns = config.get("alpha_pattern", {})
    alpha = patterns.get(_pattern_key(config, module), config["lora_alpha"])
    return lora_scale(alpha, rank_of(config, module), config.get("use_rslora", False))


def largest_rank(config: Config) -> int:
    """The largest rank that a config names, patterns included, matched or not."""
    return int(max([config["r"], *config.get("rank_pattern", {}).values()]))
