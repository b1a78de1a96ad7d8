"""No tensor of the base leaves under an adapter's name, however it was cut or cast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.base.adapter_format import WEIGHTS_FILE, lora_key
from pipeline.release import base_values
from pipeline.release.case import Broken, Case
from pipeline.release.contract import FULL_RULES, STATIC_RULES, faults, judge
from tests.support.adapters import lora_tensors, write_adapter
from tests.unit.release.breaking import LIMITS, Q0

Weights = dict[str, torch.Tensor]
A, B = lora_key(Q0, "A"), lora_key(Q0, "B")
W, EMBEDDING, DOWN = (
    f"{Q0}.weight",
    "model.embed_tokens.weight",
    "model.layers.1.mlp.down_proj.weight",
)

STOLEN: dict[str, tuple[str, str, Callable[[Weights], torch.Tensor]]] = {
    "first rows": (A, W, lambda w: w[W][:4]),
    "rows in the middle": (A, EMBEDDING, lambda w: w[EMBEDDING][101:105]),
    "last rows": (A, EMBEDDING, lambda w: w[EMBEDDING][-4:]),
    "a part of rows": (A, DOWN, lambda w: w[DOWN][3:7, 61:125]),
    "columns": (B, W, lambda w: w[W][:, 5:9]),
    "last columns": (B, W, lambda w: w[W][:, -4:]),
    "columns lying down": (A, W, lambda w: w[W][:, 9:13].T),
    "rows standing up": (B, EMBEDDING, lambda w: w[EMBEDDING][7:11].T),
    "a run across rows": (B, DOWN, lambda w: w[DOWN].reshape(-1)[77 : 77 + 256].view(64, 4)),
}  # fmt: skip


def verdict(folder: Path, base: Path) -> tuple[list[str], str]:
    failed = faults(judge(Case(folder, base, LIMITS), FULL_RULES))
    return [check.id for check in failed], failed[0].detail if failed else ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("name", "source", "cut"), STOLEN.values(), ids=STOLEN)
def test_a_slice_of_the_base_is_found(
    name: str, source: str, cut: Callable[[Weights], torch.Tensor], dtype: torch.dtype,
    base: Path, tmp_path: Path,
) -> None:  # fmt: skip
    tensors = {key: torch.from_numpy(value) for key, value in lora_tensors(base, 4).items()}
    tensors[name] = cut(load_file(base / "model.safetensors")).contiguous()
    folder = write_adapter(tmp_path / "adapter", base)
    save_file({key: value.to(dtype) for key, value in tensors.items()}, folder / WEIGHTS_FILE)
    found, detail = verdict(folder, base)
    assert found == ["base-values"]
    assert name in detail
    assert source in detail
    assert not faults(judge(Case(folder, base, LIMITS), STATIC_RULES))


@pytest.mark.parametrize("rank", [1, 2, 3, 5, 6])
def test_narrow_slices_are_found_too(rank: int, base: Path, tmp_path: Path) -> None:
    weight = load_file(base / "model.safetensors")[W].numpy()
    for number, (name, stolen) in enumerate(
        ((A, weight[7 : 7 + rank]), (B, weight[:, 9 : 9 + rank]), (B, weight[:, -rank:]))
    ):
        tensors = lora_tensors(base, rank) | {name: np.ascontiguousarray(stolen)}
        folder = write_adapter(tmp_path / str(number), base, rank=rank, tensors=tensors)
        assert verdict(folder, base)[0] == ["base-values"]
    assert verdict(write_adapter(tmp_path / "good", base, rank=rank), base) == ([], "")


def test_what_only_resembles_the_base_passes(base: Path, tmp_path: Path) -> None:
    weight = load_file(base / "model.safetensors")[W].numpy()
    almost = weight[:4].copy()
    almost[3, 63] += 0.5
    tensors = lora_tensors(base, 4) | {A: almost}
    for name in list(tensors):  # constants, as a fresh norm of the base holds them
        if "down_proj.lora_B" in name:
            tensors[name] = np.ones_like(tensors[name])
    assert verdict(write_adapter(tmp_path / "a", base, tensors=tensors), base) == ([], "")


def test_a_slice_that_is_mostly_zeros_is_found_and_zeros_are_not_looked_for(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "base"
    copy.mkdir()
    for path in base.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    padded = load_file(base / "model.safetensors")
    padded[EMBEDDING][100:] = 0.0  # rows that no token ever reached
    padded[EMBEDDING][200, 5] = 3.0
    save_file(padded, copy / "model.safetensors", {"format": "pt"})
    tried: list[int] = []
    inner = base_values.is_at
    monkeypatch.setattr(base_values, "is_at", lambda *a: tried.append(1) or inner(*a))
    tensors = lora_tensors(base, 4) | {A: padded[EMBEDDING][200:204].numpy()}
    folder = write_adapter(tmp_path / "adapter", base, tensors=tensors)
    assert verdict(folder, copy)[0] == ["base-values"]
    assert len(tried) < 20


@pytest.mark.parametrize("chunk", [64, 192, 1000])
def test_chunks_hide_nothing(
    chunk: int, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_values, "CHUNK_ELEMENTS", chunk)
    weights = load_file(base / "model.safetensors")
    for number, (name, stolen) in enumerate(
        ((A, weights[EMBEDDING][217:221]), (B, weights[W][:, 31:35]))
    ):
        tensors = lora_tensors(base, 4) | {name: stolen.contiguous().numpy()}
        folder = write_adapter(tmp_path / str(number), base, tensors=tensors)
        assert verdict(folder, base)[0] == ["base-values"]


def test_types_that_are_not_compared_are_counted(base: Path, tmp_path: Path) -> None:
    copy = tmp_path / "base"
    copy.mkdir()
    for path in base.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    save_file({"table": torch.ones(40, dtype=torch.int64)}, copy / "second.safetensors")
    case = Case(write_adapter(tmp_path / "a", base), copy, LIMITS)
    assert base_values.no_base_values(case).detail.endswith(
        "; 1 tensors of another type not compared"
    )
    tensors = lora_tensors(base, 4) | {A: load_file(base / "model.safetensors")[W][:4].numpy()}
    stolen = Case(write_adapter(tmp_path / "b", base, tensors=tensors), copy, LIMITS)
    with pytest.raises(Broken, match="holds values of the base"):
        base_values.no_base_values(stolen)
