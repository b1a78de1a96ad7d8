"""The contract on adapters of every type: whole ones pass, each break is named once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.base.adapter_format import (
    CONFIG_FILE,
    KEY_PREFIX,
    PEFT_TYPES,
    WEIGHTS_FILE,
    adapter_config,
)
from pipeline.base.adapter_shapes import factors, part_shapes
from pipeline.base.artifacts import write_json
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import tensor_shapes
from pipeline.release.adapter import bare_key, export_folder
from pipeline.release.adapter_config import largest_rank, rank_of, restrict, scale_of, value_fault
from tests.unit.release.breaking import checks_of, only_fault

OTHERS = ("adalora", "ia3", "loha", "lokr", "oft")
TARGETS = ["down_proj", "q_proj"]
Q0 = "model.layers.0.self_attn.q_proj"


def write_method(folder: Path, base: Path, method: str, **changes: Any) -> Path:
    """A sound adapter of a method, random but for what the config changes."""
    folder.mkdir(parents=True, exist_ok=True)
    config = adapter_config(
        method, base_path=str(base), rank=4, alpha=4, dropout=0.0, rslora=False,
        target_modules=TARGETS,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for name, (rows, columns) in (
        (name, shape) for name, shape in tensor_shapes(base).items() if len(shape) == 2
    ):
        module = name.removesuffix(".weight")
        if module.rpartition(".")[2] in TARGETS:
            inputs = module.endswith("down_proj")
            shapes = part_shapes(PEFT_TYPES[method], rows, columns, 4, inputs=inputs)
            for part, shape in shapes.items():
                tensors[f"{KEY_PREFIX}{module}.{part}"] = torch.randn(shape, generator=generator)
    save_file(tensors, folder / WEIGHTS_FILE)
    write_json(folder / CONFIG_FILE, {**config, **changes})
    return folder


def change_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / WEIGHTS_FILE)
    change(tensors)
    save_file(tensors, folder / WEIGHTS_FILE)


@pytest.mark.parametrize("method", OTHERS)
def test_a_whole_adapter_passes(method: str, base: Path, tmp_path: Path) -> None:
    checks = checks_of(write_method(tmp_path / "a", base, method), base)
    assert [check.id for check in checks.values() if check.passed is False] == []
    assert checks["not-zero"].figure == 4
    if method == "ia3":
        assert {checks[name].status for name in ("config-rank", "rank-limit", "scale")} == {
            "not applicable"
        }
    if method == "oft":
        assert checks["scale"].status == "not applicable"


BROKEN: dict[str, tuple[str, Callable[[dict[str, torch.Tensor]], Any], str, str]] = {
    "adalora without E": (
        "adalora", lambda t: t.pop(f"{KEY_PREFIX}{Q0}.lora_E"), "pairs", "lacks lora_E",
    ),
    "lora in adalora": (
        "adalora",
        lambda t: t.update({f"{KEY_PREFIX}{Q0}.lora_A.weight": torch.ones(4, 64)}),
        "tensor-names", "lora_A.weight",
    ),
    "E of zeros": (
        "adalora",
        lambda t: t.update({k: torch.zeros_like(v) for k, v in t.items() if "lora_E" in k}),
        "not-zero", "changes nothing",
    ),
    "ia3 of ones": (
        "ia3", lambda t: t.update({k: torch.ones_like(v) for k, v in t.items()}),
        "not-zero", "every factor is 1",
    ),
    "ia3 that lies down": (
        "ia3", lambda t: t.update({k: v.t().contiguous() for k, v in t.items()}),
        "tensor-shapes", "wants",
    ),
    "loha of another rank": (
        "loha",
        lambda t: t.update({
            f"{KEY_PREFIX}{Q0}.hada_w{i}_{s}": torch.ones((64, 2) if s == "a" else (2, 64))
            for i in (1, 2) for s in "ab"
        }),
        "tensor-ranks", "rank 2, the config says 4",
    ),
    "lokr without its small factor": (
        "lokr", lambda t: t.pop(f"{KEY_PREFIX}{Q0}.lokr_w1"), "pairs", "lacks lokr_w1",
    ),
    "oft of other blocks": (
        "oft", lambda t: t.update({f"{KEY_PREFIX}{Q0}.oft_r": torch.ones(2, 32, 32)}),
        "tensor-shapes", "wants",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("method", "change", "rule", "reason"), BROKEN.values(), ids=BROKEN)
def test_one_fault_gives_one_reason(
    method: str,
    change: Callable[[dict[str, torch.Tensor]], None],
    rule: str,
    reason: str,
    base: Path,
    tmp_path: Path,
) -> None:
    folder = write_method(tmp_path / "a", base, method)
    change_tensors(folder, change)
    fault = only_fault(folder, base)
    assert fault.id == rule
    assert reason in fault.detail


@pytest.mark.parametrize(
    ("method", "key", "value"),
    [
        ("adalora", "rank_pattern", {"x": [True]}),
        ("adalora", "use_dora", True),
        ("adalora", "init_r", 0),
        ("adalora", "tinit", -1),
        ("ia3", "feedforward_modules", "down_proj"),
        ("loha", "alpha", 0),
        ("lokr", "decompose_both", True),
        ("lokr", "decompose_factor", 8),
        ("oft", "coft", True),
        ("oft", "block_share", True),
        ("oft", "alpha_pattern", {"q_proj": 3}),
    ],
)
def test_values_that_the_contract_refuses(
    method: str, key: str, value: Any, base: Path, tmp_path: Path
) -> None:
    fault = only_fault(write_method(tmp_path / "a", base, method, **{key: value}), base)
    assert fault.id == "config-values"
    assert f"`{key}`" in fault.detail


@pytest.mark.parametrize(
    "changes", [{"alpha": 8}, {"rank_pattern": {"q_proj": 4}}, {"alpha_pattern": {"q_proj": 4}}]
)
def test_lokr_with_a_scale_is_refused(changes: dict[str, Any], base: Path, tmp_path: Path) -> None:
    fault = only_fault(write_method(tmp_path / "a", base, "lokr", **changes), base)
    assert fault.id == "config-values"
    assert "without the factor" in fault.detail


def config_of(method: str, **changes: Any) -> dict[str, Any]:
    config = adapter_config(
        method, base_path="b", rank=8, alpha=4, dropout=0.0, rslora=False, target_modules=["q_proj"]
    )
    return {**config, **changes}


def test_ranks_and_scales_by_type() -> None:
    patterns = {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"q_proj": 3}}
    assert scale_of(config_of("adalora"), Q0) == 0.5
    assert (rank_of(config_of("adalora"), Q0), largest_rank(config_of("adalora"))) == (8, 8)
    assert scale_of(config_of("loha"), Q0) == 0.5
    assert scale_of(config_of("loha", **patterns), Q0) == 1.5
    # PEFT 0.9.0 lets a pattern of LoHa match the whole of a name, that of LoRA only its end.
    assert rank_of(config_of("loha", rank_pattern={Q0: 2}), Q0) == 2
    assert scale_of(config_of("lokr"), Q0) == 1.0
    assert scale_of(config_of("ia3"), Q0) is None
    assert (rank_of(config_of("ia3"), Q0), largest_rank(config_of("ia3"))) == (0, 0)
    assert scale_of(config_of("oft"), Q0) is None
    assert rank_of(config_of("oft", rank_pattern={"q_proj": 2}), Q0) == 2


@pytest.mark.parametrize("method", OTHERS)
def test_the_export_keeps_each_type(method: str, base: Path, tmp_path: Path) -> None:
    source = write_method(tmp_path / "in", base, method, peft_version="0.21.2")
    change_tensors(source, lambda t: t.update({f"{k}.default": t.pop(k) for k in list(t)}))
    done = export_folder(source, tmp_path / "out", "float32")
    assert done["rank"] == (0 if method == "ia3" else 4)
    assert done["scale"] == (None if method in ("ia3", "oft") else 1.0)
    assert done["dropped_config_keys"] == ["peft_version"]
    assert [c.id for c in checks_of(tmp_path / "out", base).values() if c.passed is False] == []


def test_oft_of_another_version_is_refused() -> None:
    newer = config_of("oft", oft_block_size=32, use_cayley_neumann=True)
    with pytest.raises(UserError, match="oft_block_size"):
        restrict(newer, "here")


def test_a_foreign_type_is_a_fault_whatever_it_is() -> None:
    for kind in ("VERA", None, 7, ["LORA"], {}):
        assert "peft_type" in str(value_fault(config_of("lora", peft_type=kind)))


def test_wrappers_and_names_are_taken_off() -> None:
    key = f"module.{KEY_PREFIX}{Q0}._orig_mod.hada_w2_b.default"
    assert bare_key(key) == f"{KEY_PREFIX}{Q0}.hada_w2_b"


def test_configs_are_json_of_peft_keys_alone() -> None:
    for method in PEFT_TYPES:
        config = config_of(method)
        assert json.loads(json.dumps(config)) == config
        if method != "lokr":
            assert value_fault(config) is None


@pytest.mark.parametrize(
    ("side", "pair"), [(256, (16, 16)), (128, (8, 16)), (127, (1, 127)), (17408, (128, 136))]
)
def test_factors_nearest_to_each_other(side: int, pair: tuple[int, int]) -> None:
    assert factors(side) == pair
