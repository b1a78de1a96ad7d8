"""The inputs of baseline and evaluate in a folder: a tiny base, a panel, the plan's choices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.base.artifacts import write_json
from pipeline.base.records import Problem, problem_id, write_rows
from tests.support.tiny import write_tiny_base

SETTINGS: dict[str, Any] = {
    "problems": 5,
    "samples_per_problem": 2,
    "max_new_tokens": 12,
    "batch_sequences": 4,
    "device": "cpu",
    "dtype": "float32",
    "quantization": "none",
    "threads": 1,
}


def write_evaluation_inputs(root: Path, panel_rows: int = 8, **changes: Any) -> Path:
    """Write them under `root` and return the base's folder."""
    base = write_tiny_base(root / "base")
    write_json(root / "work/prepare/base.json", {"path": "base"})
    write_json(root / "work/plan/evaluation.json", {**SETTINGS, **changes})
    texts = [f"What is {number} + {number + 3}?" for number in range(panel_rows)]
    write_rows(
        root / "work/filter/panel.jsonl",
        [
            Problem(
                problem_id(text), text, str(2 * number + 3), "panel", f"panel.jsonl:{number + 1}"
            )
            for number, text in enumerate(texts)
        ],
    )
    return base
