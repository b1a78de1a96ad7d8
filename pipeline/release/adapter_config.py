"""adapter_config.json as PEFT 0.9.0 reads it: keys, values, and what they select.

Pure: a parsed config goes in, verdicts and selections come out. The rules of
selection are those of PEFT 0.9.0 (tuners_utils.py `check_target_module_exists`,
lora/model.py `_create_and_replace`), quirks included, because that loader decides
in the end which module gets which rank.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from pipeline.base.adapter_format import CONFIG_KEYS, COVERED, lora_scale
from pipeline.base.errors import UserError
from pipeline.base.safetensors_file import MAX_TOLD
from pipeline.release.value_rules import REQUIRED_KEYS, VALUE_RULES

Config = dict[str, Any]

MAX_PATTERN_CHARACTERS = 1000
MAX_PATTERN_REPEATS = 5
MAX_PATTERNS = 4096
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
    "rank_dropout_scale": (False,),
    "target_parameters": (None, []),
    "trainable_token_indices": (None, [], {}),
    "use_bdlora": (None, False),
    "use_qalora": (False,),
    "velora_config": (None,),
}
"""Keys of later PEFT versions and the values at which they change nothing."""

NEUTRAL_AT_ANY_VALUE = ("peft_version", "qalora_group_size")
"""The group size is read with `use_qalora` alone, which is refused when it is on."""


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= MAX_TOLD else f"{text[:MAX_TOLD]}… ({len(text)} characters)"


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
        UserError: it is of no type that the contract covers; or naming a key that
            0.9.0 does not know and its value, when dropping it would change what the
            adapter does.
    """
    kind = config.get("peft_type")
    if kind not in COVERED:
        raise UserError(
            f"{where}: `peft_type` = {json.dumps(kind)}",
            f"Export adapters of type {', '.join(COVERED)}.",
        )
    known = CONFIG_KEYS[kind]
    newer = sorted(config.keys() - known)
    for key in newer:
        if not is_neutral(config, key):
            raise UserError(
                f"{where}: `{key}` = {json.dumps(config[key])} means nothing to PEFT 0.9.0",
                f"Train without `{key}`: dropping it would change what the adapter does.",
            )
    return {key: config[key] for key in sorted(config.keys() & known)}, newer


def value_fault(config: Config) -> str | None:
    """The first value that the contract refuses, in words; None when all are sane."""
    kind = config.get("peft_type", "LORA")
    if kind not in COVERED:
        return f"`peft_type` = {json.dumps(kind)}, expected {' or '.join(COVERED)}"
    missing = [key for key in REQUIRED_KEYS[kind] if key not in config]
    if missing:
        return f"`{missing[0]}` is missing"
    for key, (accepts, wanted) in VALUE_RULES[kind].items():
        if key in config and not accepts(config[key]):
            return f"`{key}` = {_short(config[key])}, expected {wanted}"
    if isinstance(config["target_modules"], str):
        for key in ("layers_to_transform", "layers_pattern"):
            if config.get(key) is not None:
                return f"`{key}` cannot be used when `target_modules` is a pattern"
    if kind == "LOKR" and not _is_unscaled(config):
        return "LoKr with an alpha that is not the rank: PEFT 0.9.0 loads it without the factor"
    if len(_pattern_keys(config)) > MAX_PATTERNS:
        return f"{len(_pattern_keys(config))} patterns, expected at most {MAX_PATTERNS}"
    return next((fault for fault in map(_pattern_fault, _patterns(config)) if fault), None)


def _is_unscaled(config: Config) -> bool:
    """Whether alpha is the rank wherever the config names one of them."""
    ranks, alphas = config.get("rank_pattern", {}), config.get("alpha_pattern", {})
    return bool(config["alpha"] == config["r"] and ranks == alphas)


def _patterns(config: Config) -> list[str]:
    """Every string of the config that PEFT uses as a regular expression."""
    keys = _pattern_keys(config)
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


@lru_cache(maxsize=2 * MAX_PATTERNS)
def _compiled(pattern: str) -> re.Pattern[str]:
    # `re` itself remembers 512 patterns, a config may hold one a module.
    return re.compile(pattern)


def _pattern_keys(config: Config) -> list[str]:
    return [*(config.get("rank_pattern") or {}), *(config.get("alpha_pattern") or {})]


def _pattern_key(config: Config, module: str) -> str:
    """The pattern that decides on a module: the first that matches, ranks before alphas."""
    # LoRA wants something before the pattern, its relatives do not.
    before = r".*\." if config["peft_type"] == "LORA" else r"(.*\.)?"
    keys = _pattern_keys(config)
    return next((key for key in keys if _compiled(f"{before}{key}$").match(module)), module)


def rank_of(config: Config, module: str) -> int:
    """Rank that PEFT 0.9.0 gives a module; the blocks of OFT; 0 for IA³, which has none."""
    if config["peft_type"] == "IA3":
        return 0
    if config["peft_type"] == "ADALORA":
        return int(config["init_r"])
    return int(config.get("rank_pattern", {}).get(_pattern_key(config, module), config["r"]))


def scale_of(config: Config, module: str) -> float | None:
    """Factor on the update that PEFT 0.9.0 applies to a module; None where there is none."""
    kind, rank = config["peft_type"], rank_of(config, module)
    if kind in ("IA3", "OFT"):
        return None
    if kind == "LOKR":
        return 1.0
    if kind == "ADALORA":
        return lora_scale(config["lora_alpha"], rank, rslora=False)
    default = config["alpha" if kind == "LOHA" else "lora_alpha"]
    alpha = config.get("alpha_pattern", {}).get(_pattern_key(config, module), default)
    return lora_scale(alpha, rank, config.get("use_rslora", False))


def largest_rank(config: Config) -> int:
    """The largest rank that a config names, patterns included, matched or not."""
    if config["peft_type"] in ("IA3", "ADALORA"):
        return rank_of(config, "")
    return int(max([config["r"], *config.get("rank_pattern", {}).values()]))


def scales_inputs(config: Config, module: str) -> bool:
    """Whether IA³ scales the inputs of a module, not its outputs."""
    return any(module.endswith(name) for name in config.get("feedforward_modules", []))
