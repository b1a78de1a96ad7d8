"""Small stand-ins for publishing tests: folders to publish and their summaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from pipeline.base.adapter_format import CONFIG_FILE, WEIGHTS_FILE
from pipeline.base.artifacts import write_json


def write_source(root: Path, step: int) -> Path:
    """runs/k/checkpoint-<step>/adapter with bytes of its own."""
    folder = root / f"runs/k/checkpoint-{step}/adapter"
    folder.mkdir(parents=True)
    save_file({"x": np.full(3, step, np.float32)}, folder / WEIGHTS_FILE)
    write_json(folder / CONFIG_FILE, {"step": step})
    return folder


def summary_of(step: int, run_key: str = "k") -> dict[str, Any]:
    """What the training supervisor gives to `publish`."""
    return {
        "method_name": "lora",
        "devices": ["cpu"],
        "total_elapsed_seconds": float(step),
        "checkpoint_path": f"runs/k/checkpoint-{step}",
        "run_key": run_key,
        "step": step,
        "steps_planned": 9,
        "base_fingerprint": "f" * 64,
        "attempts": 1,
    }
