"""Everything that a report may quote, read once: the JSON files of all stages.

`python -m pipeline.report` requires every stage's file; with `--partial` what is
missing is None, and the pages say so. Nothing here is computed or invented.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import Json, read_json
from pipeline.base.budget import CLOCK_FILE
from pipeline.base.errors import UserError
from pipeline.base.records import Problem, Sample, read_rows

STAGE_FILES = {
    "base": "work/prepare/base.json",
    "data": "work/prepare/data.json",
    "machine": "work/probe/machine.json",
    "filtered": "work/filter/funnel.json",
    "decontaminated": "work/decontaminate/report.json",
    "plan": "work/plan/plan.json",
    "evaluation": "work/plan/evaluation.json",
    "selected": "work/select/report.json",
    "manifest": "work/tokenize/manifest.json",
    "baseline": "work/baseline/scores.json",
    "train": "work/train/train.json",
    "evaluate": "work/evaluate/scores.json",
    "export": "work/export/export.json",
    "contract": "work/verify/contract.json",
}
"""Field of `Evidence` -> the file it comes from."""

STEPS_FILE = "work/train/steps.csv"
PANEL_FILE = "work/filter/panel.jsonl"
SAMPLE_FILES = ("work/baseline/samples.jsonl", "work/evaluate/samples.jsonl")
SUMMARY_FILE = "run_summary.json"
RUNNING_STEPS = "steps.jsonl"


@dataclass(frozen=True)
class Evidence:
    """The content of each file by name, None where the file is not there."""

    base: Json
    data: Json
    machine: Json
    filtered: Json
    decontaminated: Json
    plan: Json
    evaluation: Json
    selected: Json
    manifest: Json
    baseline: Json
    train: Json
    evaluate: Json
    export: Json
    contract: Json
    steps: list[tuple[float, float]]
    """(step, loss) of every recorded step."""
    problems: dict[str, str]
    """Problem id -> text, of the panel."""
    before: list[Sample]
    after: list[Sample]
    stage_seconds: dict[str, float]
    """Seconds that each stage took when it last ran; empty when not recorded."""
    clock: Json
    """The running clock of the job (runs/clock.json), or None."""
    published: Json
    """run_summary.json as last published, or None."""

    def missing(self) -> list[str]:
        """Files of stages that have not run, in the order of the flow."""
        return [path for name, path in STAGE_FILES.items() if getattr(self, name) is None]


def collect(root: Path, partial: bool = False) -> Evidence:
    """Read all evidence below `root`.

    Raises:
        UserError: a stage's file is missing (unless `partial`) or broken.
    """
    found: dict[str, Any] = {
        name: _read(root / path, partial) for name, path in STAGE_FILES.items()
    }
    before, after = (_samples(root / path, partial) for path in SAMPLE_FILES)
    published = _read(root / SUMMARY_FILE, optional=True)
    if partial and found["train"] is None:
        steps = _running_steps(root, published)
    else:
        steps = _steps(root / STEPS_FILE)
    panel = root / PANEL_FILE
    problems = read_rows(Problem, panel) if panel.is_file() else []
    return Evidence(
        **found,
        steps=steps,
        problems={problem.id: problem.problem for problem in problems},
        before=before,
        after=after,
        stage_seconds=_stage_seconds(root / "runs/stages"),
        clock=_read(root / CLOCK_FILE, optional=True),
        published=published,
    )


def _read(path: Path, optional: bool) -> Json:
    return None if optional and not path.is_file() else read_json(path)


def _samples(path: Path, optional: bool) -> list[Sample]:
    return [] if optional and not path.is_file() else list(read_rows(Sample, path))


def _steps(path: Path) -> list[tuple[float, float]]:
    if not path.is_file():
        raise UserError(f"{path}: file not found", "Run the stage that makes it: `dvc repro`.")
    with path.open(encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream)
        try:
            return [(float(row["step"]), float(row["loss"])) for row in rows]
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{path}:{rows.line_num}: no step and loss to read ({error})",
                "Run `dvc repro -f train`.",
            ) from None


def _running_steps(root: Path, published: Json) -> list[tuple[float, float]]:
    """Steps of a training that did not end, from the log that its worker appends to."""
    path = root / "runs" / str((published or {}).get("run_key")) / RUNNING_STEPS
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    losses: dict[float, float] = {}
    for line in lines:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            break  # a kill may cut the last line
        losses[float(row["step"])] = float(row["loss"])
    return sorted(losses.items())


def _stage_seconds(folder: Path) -> dict[str, float]:
    records = [read_json(path) for path in sorted(folder.glob("*.json"))]
    return {record["stage"]: float(record["seconds"]) for record in records}
