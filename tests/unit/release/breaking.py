"""Ways to break a sound adapter, and the verdict of the static contract on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from pipeline.base.adapter_format import CONFIG_FILE, WEIGHTS_FILE, lora_key
from pipeline.base.artifacts import write_json
from pipeline.release.case import Case
from pipeline.release.contract import STATIC_RULES, Check, faults, judge
from tests.support.adapters import lora_tensors, write_adapter
from tests.support.settings import make_params

LIMITS = make_params().verify
Q0 = "model.layers.0.self_attn.q_proj"


def checks_of(folder: Path, base: Path, **more: Any) -> dict[str, Check]:
    return {c.id: c for c in judge(Case(folder, base, LIMITS, **more), STATIC_RULES)}


def only_fault(folder: Path, base: Path, **more: Any) -> Check:
    failed = faults(list(checks_of(folder, base, **more).values()))
    assert [check.id for check in failed] == [failed[0].id]
    return failed[0]


Break = Callable[[Path, Path], None]


def in_tensors(change: Callable[[dict[str, Any]], None]) -> Break:
    def apply(folder: Path, base: Path) -> None:
        tensors = {name: torch.from_numpy(v) for name, v in lora_tensors(base, 4).items()}
        change(tensors)
        save_file(tensors, folder / WEIGHTS_FILE)

    return apply


def in_config(**changes: Any) -> Break:
    def apply(folder: Path, base: Path) -> None:
        config = json.loads((folder / CONFIG_FILE).read_text())
        write_json(folder / CONFIG_FILE, {**config, **changes})

    return apply


def zero_b(tensors: dict[str, Any]) -> None:
    for name in tensors:
        if ".lora_B." in name:
            tensors[name] = torch.zeros_like(tensors[name])


def rename(old: str, new: str) -> Break:
    def change(tensors: dict[str, Any]) -> None:
        for name in list(tensors):
            tensors[name.replace(old, new)] = tensors.pop(name)

    return in_tensors(change)


def put(name: str, value: torch.Tensor) -> Break:
    return in_tensors(lambda tensors: tensors.update({name: value.clone()}))


def spoil(value: float) -> Break:
    return in_tensors(lambda tensors: tensors[lora_key(Q0, "B")][1, 1].fill_(value))


def raw_config(text: str) -> Break:
    return lambda folder, base: (folder / CONFIG_FILE).write_text(text) and None


def symlink(folder: Path, base: Path) -> None:
    (folder / CONFIG_FILE).rename(folder.parent / "elsewhere.json")
    (folder / CONFIG_FILE).symlink_to(folder.parent / "elsewhere.json")


def hard_link(folder: Path, base: Path) -> None:
    (folder.parent / "second.safetensors").hardlink_to(folder / WEIGHTS_FILE)


def rank_65(folder: Path, base: Path) -> None:
    write_adapter(folder, base, rank=65)


def raw_weights(data: bytes) -> Break:
    return lambda folder, base: (folder / WEIGHTS_FILE).write_bytes(data) and None
