"""LoRA adapters for tests: small, random, and easy to break."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from pipeline.base.adapter_format import CONFIG_FILE, WEIGHTS_FILE, lora_config, lora_key
from pipeline.base.artifacts import write_json
from pipeline.base.fingerprint import tensor_shapes

Tensors = dict[str, Any]

TARGETS = ("down_proj", "q_proj")


def lora_tensors(base: Path, rank: int, targets: tuple[str, ...] = TARGETS) -> Tensors:
    """Random A and B, float32, for every module of `base` that `targets` names."""
    random = np.random.default_rng(0)
    tensors: Tensors = {}
    for name, shape in sorted(tensor_shapes(base).items()):
        module = name.removesuffix(".weight")
        if module.rpartition(".")[2] in targets:
            tensors[lora_key(module, "A")] = random.normal(0, 0.1, (rank, shape[1]))
            tensors[lora_key(module, "B")] = random.normal(0, 0.1, (shape[0], rank))
    return {name: value.astype(np.float32) for name, value in tensors.items()}


def write_adapter(
    folder: Path,
    base: Path,
    *,
    rank: int = 4,
    targets: tuple[str, ...] = TARGETS,
    tensors: Tensors | None = None,
    **changes: Any,
) -> Path:
    """A sound adapter for `base`, unless `tensors` or `changes` to its config break it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = lora_config(
        base_path=str(base),
        rank=rank,
        alpha=2 * rank,
        dropout=0.0,
        rslora=False,
        target_modules=list(targets),
    )
    write_json(folder / CONFIG_FILE, {**config, **changes})
    save_file(
        lora_tensors(base, rank, targets) if tensors is None else tensors, folder / WEIGHTS_FILE
    )
    return folder
