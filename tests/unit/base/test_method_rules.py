"""What PEFT 0.9.0 could not load, or what has no meaning, is refused with the way out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline.base.adapter_format import PEFT_TYPES
from pipeline.base.errors import UserError
from pipeline.base.method_rules import (
    STORAGE,
    Recipe,
    Surroundings,
    adapter_size,
    allowed_storage,
    check_recipe,
)

LAYERS = {"q_proj": (64, 64), "v_proj": (64, 32), "down_proj": (128, 64)}

GOOD = Recipe(
    method="lora",
    rank=8,
    alpha=8,
    rslora=False,
    dropout=0.0,
    rank_pattern={},
    alpha_pattern={},
    base_quantization="auto",
    optimizer="adamw",
    lora_plus_ratio=1.0,
    ema_decay=0.0,
)
GPU = Surroundings(
    layers=LAYERS,
    parameters=600_000_000,
    device="cuda",
    compute_dtype="float32",
    peft="0.9.0",
    bitsandbytes="0.50.2",
    export_dtype="float32",
    max_rank=64,
)


def refusal(recipe: Recipe = GOOD, around: Surroundings = GPU, **changes: Any) -> str:
    with pytest.raises(UserError) as raised:
        check_recipe(replace(recipe, **changes), around)
    return str(raised.value)


@pytest.mark.parametrize("method", PEFT_TYPES)
def test_every_method_can_be_trained_in_some_way(method: str) -> None:
    check_recipe(replace(GOOD, method=method), GPU)


@pytest.mark.parametrize("method", PEFT_TYPES)
@pytest.mark.parametrize("storage", ["none", "fp8", "int8", "nf4"])
def test_forms_of_the_base(method: str, storage: str) -> None:
    recipe = replace(GOOD, method=method, base_quantization=storage)
    if storage in STORAGE[method]:
        check_recipe(recipe, GPU)
    else:
        text = refusal(recipe)
        assert f"train.method: {method} on train.base_quantization: {storage}" in text
        assert "or train.method to lora" in text


def test_only_plain_lora_goes_on_every_form() -> None:
    assert [method for method, forms in STORAGE.items() if len(forms) == 4] == ["lora"]
    assert "0.10" in refusal(method="dora", base_quantization="nf4")
    assert "fast path" in refusal(method="oft", base_quantization="fp8")


def test_what_auto_may_choose_from() -> None:
    assert allowed_storage("dora", ["none", "nf4"]) == ["none"]
    assert allowed_storage("lora", ["none", "nf4"]) == ["none", "nf4"]


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "lokr scale": ({"method": "lokr", "alpha": 16}, {}, "alpha: 16 with rank 8 and lokr"),
    "lokr scale by a rank pattern": (
        {"method": "lokr", "rank_pattern": {"q_proj": 4}}, {}, "alpha: 8 of q_proj with rank 4",
    ),
    "lokr scale by an alpha pattern": (
        {"method": "lokr", "alpha_pattern": {"q_proj": 4}}, {}, "alpha: 4 of q_proj with rank 8",
    ),
    "oft of another PEFT": ({"method": "oft"}, {"peft": "0.21.2"}, "peft 0.21.2.*peft 0.9.0"),
    "oft of the first other PEFT": ({"method": "oft"}, {"peft": "0.14.0"}, "peft 0.14.0"),
    "oft in 16 bits": ({"method": "oft"}, {"compute_dtype": "bfloat16"}, "oft in bfloat16.*t32"),
    "oft on a large base": ({"method": "oft"}, {"parameters": 4_000_000_000}, "4,000,000,000"),
    "oft that does not divide": ({"method": "oft", "rank": 5}, {}, "5 blocks.*64 outputs"),
    "ia3 rounded": ({"method": "ia3"}, {"export_dtype": "bfloat16"}, "export.dtype.*float32"),
    "rank pattern of adalora": (
        {"method": "adalora", "rank_pattern": {"q_proj": 4}}, {}, "train.rank_pattern: PEFT 0.9",
    ),
    "rank pattern of ia3": (
        {"method": "ia3", "rank_pattern": {"q_proj": 4}}, {}, "train.rank_pattern: PEFT 0.9",
    ),
    "alpha pattern of oft": (
        {"method": "oft", "alpha_pattern": {"q_proj": 4}}, {}, "train.alpha_pattern: PEFT 0.9",
    ),
    "pattern of no layer": ({"rank_pattern": {"o_proj": 4}}, {}, "'o_proj' is no adapted layer"),
    "pattern above the limit": ({"rank_pattern": {"q_proj": 65}}, {}, "q_proj = 65.*max_rank 64"),
    "pattern of zero": ({"alpha_pattern": {"q_proj": 0}}, {}, "q_proj = 0.*at least 1"),
    "rslora elsewhere": ({"method": "loha", "rslora": True}, {}, "train.rslora"),
    "dropout elsewhere": ({"method": "ia3", "dropout": 0.1}, {}, "train.dropout: 0.1, but ia3"),
    "LoRA+ elsewhere": ({"method": "adalora", "lora_plus_ratio": 4.0}, {}, "lora_plus_ratio"),
    "8 bit on a CPU": ({"optimizer": "adamw-8bit"}, {"device": "cpu"}, "needs a GPU"),
    "8 bit without its library": (
        {"optimizer": "adamw-8bit-paged"}, {"bitsandbytes": None}, "needs bitsandbytes",
    ),
    "muon without matrices": ({"method": "ia3", "optimizer": "muon"}, {}, "muon is for matrices"),
    "two averages": ({"optimizer": "schedule-free", "ema_decay": 0.9}, {}, "averages itself"),
    "average of masks": ({"method": "adalora", "ema_decay": 0.9}, {}, "masks of adalora"),
    "schedule-free masks": (
        {"method": "adalora", "optimizer": "schedule-free"}, {}, "masks of adalora",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "around", "said"), REFUSED.values(), ids=REFUSED)
def test_refusals(changes: dict[str, Any], around: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_recipe(replace(GOOD, **changes), replace(GPU, **around))


def test_all_faults_come_in_one_message() -> None:
    text = refusal(method="ia3", dropout=0.1, rslora=True, optimizer="muon", lora_plus_ratio=2.0)
    for part in ("train.dropout", "train.rslora", "muon", "lora_plus_ratio"):
        assert part in text


def test_patterns_that_peft_knows_pass() -> None:
    patterns = {"rank_pattern": {"q_proj": 4}, "alpha_pattern": {"q_proj": 4}}
    for method in ("lora", "dora", "loha", "lokr"):
        check_recipe(replace(GOOD, method=method, **patterns), GPU)
    check_recipe(replace(GOOD, method="oft", rank_pattern={"q_proj": 4}), GPU)


def test_an_unknown_version_counts_as_old() -> None:
    check_recipe(replace(GOOD, method="oft"), replace(GPU, peft="git"))


def test_sizes() -> None:
    sides = (64 + 64) + (64 + 32) + (128 + 64)
    assert adapter_size(GOOD, LAYERS, 8) == 8 * sides
    assert adapter_size(replace(GOOD, method="dora"), LAYERS, 8) == 8 * sides + 64 + 32 + 64
    assert adapter_size(replace(GOOD, method="adalora"), LAYERS, 8) == 8 * sides + 3 * 8
    assert adapter_size(replace(GOOD, method="ia3"), LAYERS, 8) == 64 + 32 + 128
    assert adapter_size(replace(GOOD, method="loha"), LAYERS, 8) == 2 * 8 * sides
    assert adapter_size(replace(GOOD, method="oft"), LAYERS, 8) == (64**2 + 32**2 + 64**2) // 8
    wide = replace(GOOD, rank_pattern={"v_proj": 16})
    assert adapter_size(wide, LAYERS, 8) == 8 * sides + 8 * (64 + 32)
