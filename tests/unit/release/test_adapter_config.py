from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from peft.tuners.tuners_utils import check_target_module_exists

from pipeline.base.adapter_format import LORA_CONFIG_KEYS, lora_config
from pipeline.base.errors import UserError
from pipeline.release.adapter_config import (
    largest_rank,
    rank_of,
    restrict,
    scale_of,
    targets,
    value_fault,
)

GOOD = lora_config(
    base_path="base", rank=16, alpha=16, dropout=0.1, rslora=False, target_modules=["q_proj"]
)

Q0 = "model.layers.0.self_attn.q_proj"
Q1 = "model.layers.1.self_attn.q_proj"

NEUTRAL = {
    "alora_invocation_tokens": None,
    "arrow_config": None,
    "corda_config": None,
    "ensure_weight_tying": False,
    "eva_config": None,
    "exclude_modules": [],
    "kasa_config": None,
    "layer_replication": None,
    "lora_bias": False,
    "peft_version": "0.21.2",
    "qalora_group_size": 16,
    "target_parameters": None,
    "trainable_token_indices": None,
    "use_bdlora": None,
    "use_qalora": False,
    "velora_config": None,
}

MEANINGFUL = {
    "alora_invocation_tokens": [1, 2],
    "exclude_modules": ["v_proj"],
    "kasa_config": {"beta": 0.1},
    "layer_replication": [[0, 4], [2, 5]],
    "lora_bias": True,
    "target_parameters": ["experts.weight"],
    "trainable_token_indices": [7],
    "use_qalora": True,
    "from_the_future": None,
}


def test_newer_keys_at_neutral_values_are_dropped() -> None:
    kept, dropped = restrict({**GOOD, **NEUTRAL}, "here")
    assert kept == GOOD
    assert dropped == sorted(NEUTRAL)
    assert kept.keys() <= LORA_CONFIG_KEYS


@pytest.mark.parametrize(("key", "value"), MEANINGFUL.items())
def test_newer_keys_with_meaning_are_refused_by_name(key: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"`{key}` = ") as raised:
        restrict({**GOOD, **NEUTRAL, key: value}, "here")
    assert "here" in str(raised.value)


def test_zero_is_not_the_neutral_false() -> None:
    with pytest.raises(UserError, match="lora_bias"):
        restrict({**GOOD, "lora_bias": 0}, "here")


def test_other_types_are_refused_by_their_type() -> None:
    with pytest.raises(UserError, match='`peft_type` = "VERA"'):
        restrict({**GOOD, "peft_type": "VERA"}, "here")
    with pytest.raises(UserError, match=r"`peft_type` = \["):
        restrict({**GOOD, "peft_type": ["LORA"]}, "here")


def test_a_config_of_ours_is_sane() -> None:
    assert value_fault(GOOD) is None


def test_settings_that_stay_allowed() -> None:
    assert value_fault({**GOOD, "use_dora": True, "use_rslora": True}) is None
    assert value_fault({**GOOD, "target_modules": r".*\.(?:q_proj|v_proj)"}) is None
    assert value_fault({**GOOD, "rank_pattern": {"q_proj": 8}, "inference_mode": False}) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("r", 0),
        ("r", True),
        ("r", 8.0),
        ("lora_alpha", -1),
        ("lora_alpha", float("inf")),
        ("lora_dropout", 1.0),
        ("task_type", "SEQ_CLS"),
        ("task_type", None),
        ("bias", "all"),
        ("modules_to_save", ["lm_head"]),
        ("auto_mapping", {"base_model_class": "X"}),
        ("init_lora_weights", "pissa"),
        ("fan_in_fan_out", True),
        ("target_modules", "all-linear"),
        ("target_modules", "All-Linear"),
        ("target_modules", []),
        ("target_modules", ["q_proj", 3]),
        ("target_modules", None),
        ("base_model_name_or_path", None),
        ("base_model_name_or_path", " "),
        ("rank_pattern", None),
        ("rank_pattern", {"q_proj": 0}),
        ("alpha_pattern", {"q_proj": "8"}),
        ("megatron_config", {"x": 1}),
        ("megatron_core", "os"),
        ("loftq_config", {"loftq_bits": 4}),
        ("layers_to_transform", "0"),
    ],
)
def test_values_that_are_refused_by_name(key: str, value: Any) -> None:
    fault = value_fault({**GOOD, key: value})
    assert fault is not None
    assert fault.startswith(f"`{key}` = ")


@pytest.mark.parametrize("key", ["r", "lora_alpha", "target_modules", "base_model_name_or_path"])
def test_values_that_must_be_spelt_out(key: str) -> None:
    assert value_fault({k: v for k, v in GOOD.items() if k != key}) == f"`{key}` is missing"


@pytest.mark.parametrize("pattern", ["(a+)+$", "(x|y)*z", ".*.*.*.*.*.*q", "a" * 1001, "(q_proj"])
def test_patterns_that_could_match_for_ever_or_not_at_all(pattern: str) -> None:
    fault = value_fault({**GOOD, "rank_pattern": {pattern: 4}})
    assert fault is not None
    assert fault.startswith("pattern ")


def test_a_pattern_goes_without_layer_numbers() -> None:
    config = {**GOOD, "target_modules": ".*q_proj", "layers_to_transform": [0]}
    assert "cannot be used" in str(value_fault(config))


def test_targets_by_full_name_by_suffix_and_by_pattern() -> None:
    assert targets({**GOOD, "target_modules": [Q0]}, Q0)
    assert not targets({**GOOD, "target_modules": [Q0]}, Q1)
    assert targets({**GOOD, "target_modules": ["self_attn.q_proj"]}, Q1)
    assert not targets({**GOOD, "target_modules": ["proj"]}, Q0)
    assert targets({**GOOD, "target_modules": r".*\.0\..*q_proj"}, Q0)
    assert not targets({**GOOD, "target_modules": "q_proj"}, Q0)


def test_layer_numbers_narrow_the_targets() -> None:
    assert targets({**GOOD, "layers_to_transform": 0}, Q0)
    assert not targets({**GOOD, "layers_to_transform": [0]}, Q1)
    assert targets({**GOOD, "layers_to_transform": [1], "layers_pattern": "layers"}, Q1)
    assert not targets({**GOOD, "layers_to_transform": [1], "layers_pattern": ["blocks"]}, Q1)


@pytest.mark.parametrize("chosen", [["q_proj"], [Q1], r".*1\.self_attn\.q_proj"])
@pytest.mark.parametrize("layers", [None, 1, [0]])
def test_targets_are_those_of_peft(chosen: Any, layers: Any) -> None:
    settings = SimpleNamespace(
        target_modules=chosen, layers_to_transform=layers, layers_pattern=None
    )
    config = {**GOOD, "target_modules": chosen, "layers_to_transform": layers}
    for module in (Q0, Q1, "model.norm"):
        assert targets(config, module) == bool(check_target_module_exists(settings, module))


def test_patterns_decide_on_rank_and_scale() -> None:
    config = {**GOOD, "rank_pattern": {r"0\.self_attn\.q_proj": 4}, "alpha_pattern": {Q1: 64}}
    assert rank_of(config, Q0) == 4
    assert rank_of(config, Q1) == 16
    assert scale_of(config, Q0) == 4.0
    assert scale_of(config, Q1) == 4.0
    assert largest_rank({**GOOD, "rank_pattern": {"never": 65}}) == 65


def test_scale_with_and_without_rank_stabilisation() -> None:
    assert scale_of(GOOD, Q0) == 1.0
    assert scale_of({**GOOD, "use_rslora": True}, Q0) == 4.0


def test_a_rank_pattern_hides_a_later_alpha_pattern_as_in_peft() -> None:
    # The first key that matches is used for both look-ups, so the alpha is the default.
    config = {**GOOD, "rank_pattern": {"q_proj": 8}, "alpha_pattern": {r"self_attn\.q_proj": 64}}
    assert scale_of(config, Q0) == 2.0
