"""Measure base and adapter together: `dvc repro evaluate` / `python -m pipeline.evaluate`.

Reads work/train/adapter besides what baseline reads, asks the same problems in the
same way. Writes work/evaluate/samples.jsonl (one graded reply a line) and
work/evaluate/scores.json. Ends at its share of the budget with what is finished.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.base.loading import load_adapter, load_base
from pipeline.base.params import Params
from pipeline.base.stage import run_stage
from pipeline.measurement.panel import Settings, run_panel

ADAPTER = Path("work/train/adapter")
OUTPUT = Path("work/evaluate")


def load(base: Path, settings: Settings) -> Any:
    """The base with the trained adapter."""
    model = load_base(
        base,
        dtype=settings.dtype,
        device=settings.device,
        quantization=settings.quantization,
    )
    return load_adapter(model, ADAPTER)


def main(params: Params) -> None:
    """Ask base and adapter every problem of the panel."""
    run_panel("adapter", OUTPUT, params, load)


if __name__ == "__main__":
    raise SystemExit(run_stage("evaluate", main))
