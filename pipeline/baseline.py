"""Measure the frozen base on the panel: `dvc repro baseline` / `python -m pipeline.baseline`.

Reads work/filter/panel.jsonl, work/plan/evaluation.json, work/prepare/base.json and
the base's folder. Writes work/baseline/samples.jsonl (one graded reply a line) and
work/baseline/scores.json. Nothing of the training enters, so an edit of the recipe
does not repeat it. Ends at its share of the budget with what is finished.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.base.loading import load_base
from pipeline.base.params import Params
from pipeline.base.stage import run_stage
from pipeline.measurement.panel import Settings, run_panel

OUTPUT = Path("work/baseline")


def load(base: Path, settings: Settings) -> Any:
    """The base alone."""
    return load_base(
        base,
        dtype=settings.dtype,
        device=settings.device,
        quantization=settings.quantization,
    )


def main(params: Params) -> None:
    """Ask the base every problem of the panel."""
    run_panel("base", OUTPUT, params, load)


if __name__ == "__main__":
    raise SystemExit(run_stage("baseline", main))
