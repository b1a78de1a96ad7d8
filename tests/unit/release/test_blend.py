"""Blends are what they say, proven by logits, and ordinary adapters of the contract."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from pipeline.base.adapter_format import CONFIG_FILE, WEIGHTS_FILE, lora_key
from pipeline.base.errors import UserError
from pipeline.base.loading import load_adapter, load_base
from pipeline.release import blend as blending
from pipeline.release.blend import blend, open_sources, scale_folder
from pipeline.release.case import Case
from pipeline.release.contract import verify_adapter
from tests.support.adapters import Tensors, lora_tensors, write_adapter
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base
from tests.unit.release.breaking import LIMITS, Q0

ALL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
TOLERANCE = 1e-5


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp("blend") / request.param, request.param)


@cache
def prompt() -> torch.Tensor:
    return torch.tensor([[(7 * place + 3) % 300 for place in range(12)]])


def logits(base: Path, adapter: Path | None) -> torch.Tensor:
    model: Any = load_base(base, dtype="float32", device="cpu")
    if adapter is not None:
        model = load_adapter(model, adapter)
    with torch.inference_mode():
        return model(input_ids=prompt(), use_cache=False).logits


def merged(
    base: Path, adapters: list[tuple[Path, float]], targets: tuple[str, ...]
) -> torch.Tensor:
    """Logits of the base with the weighted updates added to its weights, without PEFT."""
    model: Any = load_base(base, dtype="float32", device="cpu")
    for folder, weight in adapters:
        config = json.loads((folder / CONFIG_FILE).read_text())
        root = config["use_rslora"]
        tensors = load_file(folder / WEIGHTS_FILE)
        for name, module in model.named_modules():
            if name.rpartition(".")[2] in targets and lora_key(name, "A") in tensors:
                a, b = tensors[lora_key(name, "A")], tensors[lora_key(name, "B")]
                scale = config["lora_alpha"] / (len(a) ** (0.5 if root else 1))
                update = weight * scale * (b.astype(np.float64) @ a)
                module.weight.data += torch.from_numpy(update).float()
    with torch.inference_mode():
        return model(input_ids=prompt(), use_cache=False).logits


def small(base: Path, rank: int, seed: int, targets: tuple[str, ...] = ALL) -> Tensors:
    """Updates of the size that training leaves."""
    random = np.random.default_rng(seed)
    found = lora_tensors(base, rank, targets)
    return {n: (0.05 * random.normal(size=v.shape)).astype(np.float32) for n, v in found.items()}


def write(
    folder: Path, base: Path, rank: int, seed: int, targets: tuple[str, ...] = ALL, **more: Any
) -> Path:
    tensors = small(base, rank, seed, targets)
    return write_adapter(folder, base, rank=rank, targets=targets, tensors=tensors, **more)


def gap(left: torch.Tensor, right: torch.Tensor) -> float:
    return float((left - right).abs().max())


def test_alpha_leads_from_the_base_to_the_adapter(tiny: Path, tmp_path: Path) -> None:
    one = write(tmp_path / "one", tiny, 4, 1)
    bare, whole = logits(tiny, None), logits(tiny, one)
    assert gap(bare, whole) > 0.01
    config = json.loads((one / CONFIG_FILE).read_text())
    for alpha, wanted in ((0.0, bare), (1.0, whole)):
        target = tmp_path / f"{alpha}"
        target.mkdir()
        scale_folder(one, config, target, alpha)
        assert gap(logits(tiny, target), wanted) == 0.0
    half = tmp_path / "half"
    sources = open_sources([one], [1.0], tiny, LIMITS)
    blend(sources, half, 0.375, LIMITS, None)
    assert gap(logits(tiny, half), merged(tiny, [(one, 0.375)], ALL)) < TOLERANCE
    assert (half / WEIGHTS_FILE).read_bytes() == (one / WEIGHTS_FILE).read_bytes()


def test_an_average_of_two_of_rank_32_is_exact_at_64(tiny: Path, tmp_path: Path) -> None:
    both = [write(tmp_path / name, tiny, 32, seed) for seed, name in enumerate("ab")]
    sources = open_sources(both, [1, 1], tiny, LIMITS)
    out = tmp_path / "out"
    told = blend(sources, out, 1.0, LIMITS, None)
    assert (told["rank"], told["cut_modules"], told["largest_error"]) == (64, 0, 0.0)
    assert told["max_relative_rounding_error"] == 0.0
    assert gap(logits(tiny, out), merged(tiny, [(f, 0.5) for f in both], ALL)) < TOLERANCE
    contract = verify_adapter(Case(out, tiny, LIMITS))
    assert contract["passed"], [c for c in contract["checks"] if c["passed"] is False]


def test_other_ranks_scales_weights_and_modules_are_exact_too(tiny: Path, tmp_path: Path) -> None:
    first = write(tmp_path / "a", tiny, 4, 1, ("q_proj", "down_proj"), use_rslora=True)
    second = write(tmp_path / "b", tiny, 6, 2, ("q_proj", "v_proj"), lora_alpha=3)
    sources = open_sources([first, second], [3, 1], tiny, LIMITS)
    out = tmp_path / "out"
    blend(sources, out, 0.5, LIMITS, None)
    wanted = merged(tiny, [(first, 0.375), (second, 0.125)], ALL)
    assert gap(logits(tiny, out), wanted) < TOLERANCE
    assert json.loads((out / CONFIG_FILE).read_text())["use_rslora"] is False


def test_beyond_the_limit_the_error_is_told(tiny: Path, tmp_path: Path) -> None:
    both = [write(tmp_path / name, tiny, 6, seed) for seed, name in enumerate("ab")]
    tight = make_params(**{"verify.max_rank": 8}).verify
    told = blend(open_sources(both, [1, 1], tiny, tight), tmp_path / "out", 1.0, tight, None)
    assert told["rank"] == 8
    assert told["cut_modules"] == 14
    q0 = [load_file(folder / WEIGHTS_FILE) for folder in both]
    whole = sum(t[lora_key(Q0, "B")] @ t[lora_key(Q0, "A")] for t in q0)  # alpha/r is 2
    cut = load_file(tmp_path / "out" / WEIGHTS_FILE)
    left = whole - cut[lora_key(Q0, "B")] @ cut[lora_key(Q0, "A")]
    assert 0 < np.linalg.norm(left) / np.linalg.norm(whole) <= told["largest_error"] + 1e-6
    assert told["largest_error"] < 0.7


def test_a_copy_of_one_adapter_cut_to_its_rank_loses_nothing(base: Path, tmp_path: Path) -> None:
    one = write(tmp_path / "a", base, 8, 1)
    tight = make_params(**{"verify.max_rank": 8}).verify
    sources = open_sources([one, one], [1, 5], base, tight)
    told = blend(sources, tmp_path / "out", 1.0, tight, None)
    assert told["largest_error"] < 1e-6
    assert gap(logits(base, tmp_path / "out"), logits(base, one)) < TOLERANCE


def test_the_type_of_the_file_may_change_and_its_price_is_told(base: Path, tmp_path: Path) -> None:
    one = write(tmp_path / "a", base, 4, 1)
    sources = open_sources([one], [1.0], base, LIMITS)
    told = blend(sources, tmp_path / "out", 1.0, LIMITS, "BF16")
    assert told["dtype"] == "BF16"
    assert 0 < told["max_relative_rounding_error"] <= 2**-8
    assert 0 < gap(logits(base, tmp_path / "out"), logits(base, one)) < 0.05


def test_what_cannot_be_blended_is_refused(base: Path, tmp_path: Path) -> None:
    one = write(tmp_path / "a", base, 4, 1)
    bad = write(tmp_path / "bad", base, 4, 1, lora_alpha=0)
    sources = open_sources([one], [1], base, LIMITS)
    for folders, weights, told in (
        ([one], [0.0], "one positive weight"),
        ([one], [1, 1], "one positive weight"),
        ([one, bad], [1, 1], "bad breaks the contract: config-values"),
    ):
        with pytest.raises(UserError, match=told):
            open_sources(folders, weights, base, LIMITS)
    for target, alpha, dtype, told in (
        (one, 1.0, None, "exists already"),
        (tmp_path / "o", 0.0, None, "alpha = 0"),
        (tmp_path / "o", float("nan"), None, "alpha = nan"),
        (tmp_path / "o", 2e5, None, "the blend breaks the contract: config-values"),
    ):
        with pytest.raises(UserError, match=told):
            blend(sources, target, alpha, LIMITS, dtype)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "bad"]


def test_updates_that_are_no_sums_are_refused(base: Path, tmp_path: Path) -> None:
    tensors = small(base, 4, 1, ("q_proj",))
    for name in [name for name in tensors if "lora_B" in name]:
        magnitude = name.replace("lora_B.weight", "lora_magnitude_vector")
        tensors[magnitude] = np.ones(64, np.float32)
    dora = write_adapter(tmp_path / "d", base, targets=("q_proj",), tensors=tensors, use_dora=True)
    with pytest.raises(UserError, match="DoRA is no sum of updates"):
        open_sources([dora], [1], base, LIMITS)


def test_each_module_is_computed_once(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    inner = blending.average

    def counted(sources: Any, module: str, rank: int) -> Any:
        calls.append(module)
        return inner(sources, module, rank)

    monkeypatch.setattr(blending, "average", counted)
    both = [write(tmp_path / name, base, 4, seed) for seed, name in enumerate("ab")]
    blend(open_sources(both, [1, 1], base, LIMITS), tmp_path / "out", 1.0, LIMITS, None)
    assert len(calls) == len(set(calls)) == 14
