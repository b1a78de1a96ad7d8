"""What the train stage leaves behind: work/train with adapter, figures, record. No torch."""

from __future__ import annotations

import csv
import io
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import read_json, write_json, write_text
from pipeline.base.errors import UserError
from pipeline.learning.accounting import account_of, sources_of
from pipeline.learning.checkpoint import (
    ADAPTER_FOLDER,
    TrainState,
    as_rows,
    newest_complete,
    read_state,
)
from pipeline.learning.data import PackedData
from pipeline.learning.job import Job, read_journal, recipe_of
from pipeline.learning.schedule import Replan, to_json, total_steps
from pipeline.learning.supervisor import versions

COLUMNS = (
    "step", "loss", "token_accuracy", "learning_rate", "grad_norm", "tokens", "seconds",
    "tokens_per_second", "mfu", "memory_gib", "budget_left_seconds",
)  # fmt: skip
"""Figures of a step; docs/training.md says what each is."""


def method_name(job: Job) -> str:
    """The method as run_summary.json names it."""
    return "rslora" if job.params.rslora else job.params.method


def write_steps(rows: list[dict[str, Any]], path: Path) -> None:
    """Per-step figures as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def final_checkpoint(job: Job) -> Path:
    """The whole checkpoint of the last planned step."""
    folder = newest_complete(job.run, print)
    if folder is None or read_state(folder).step != total_steps(read_journal(job)):
        raise UserError(f"{job.run}: no complete last checkpoint", "Run `dvc repro train` again.")
    return folder


def write_results(job: Job, devices: list[str], attempts: int, target: Path) -> dict[str, Any]:
    """Fill work/train from the finished run; returns train.json's content."""
    folder = final_checkpoint(job)
    rows = as_rows(job.steps_file)
    target.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder / ADAPTER_FOLDER, target / ADAPTER_FOLDER, dirs_exist_ok=True)
    write_steps(rows, target / "steps.csv")
    record = summary_of(job, devices, attempts, read_state(folder), rows)
    write_json(target / "train.json", record)
    return record


def summary_of(
    job: Job, devices: list[str], attempts: int, state: TrainState, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """train.json: what was run, on what, how far, and which bound ended it."""
    journal = read_journal(job)
    manifest = read_json(job.data / "manifest.json")
    return {
        "run_key": job.run.name,
        "status": "complete",
        "ended_by": "budget" if total_steps(journal) < job.most_steps else "steps",
        "steps": state.step,
        "steps_planned": journal[0].total,
        "tokens": state.tokens,
        "trained_tokens": state.trained_tokens,
        "passes": round(state.tokens / manifest["tokens"], 3),
        "final_loss": rows[-1]["loss"] if rows else None,
        "learning_rate_end": rows[-1]["learning_rate"] if rows else None,
        "seconds": round(state.seconds, 2),
        "tokens_per_second": round(state.tokens / max(state.seconds, 1e-9), 1),
        "peak_memory_gib": max((row["memory_gib"] for row in rows), default=None),
        "devices": devices,
        "attempts": attempts,
        "base_fingerprint": job.base_fingerprint,
        "manifest_sha256": job.manifest_sha256,
        "method_name": method_name(job),
        "recipe": recipe_of(job.params, job.training),
        "journal": to_json(journal),
        "curriculum": curriculum_of(job, journal, rows),
        "versions": versions(),
    }


def curriculum_of(job: Job, journal: list[Replan], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Stages and passes of the run, as planned at first and as they were."""
    data = PackedData(job.data)
    sources = sources_of(data, job.data)
    planned, done = account_of(job, data, journal[:1]), account_of(job, data, journal)
    losses = {int(row["step"]): row["loss"] for row in rows}
    stages = [
        {
            **stage,
            "first_loss": losses.get(start + 1) if end > start else None,
            "last_loss": losses.get(end) if end > start else None,
        }
        for stage, (start, end) in zip(done.of_stages(), pairwise(done.borders), strict=True)
    ]
    return {
        "stages": stages,
        "passes": done.of_tiers(),
        "sources": done.of_sources(sources),
        "planned": {
            "stages": planned.of_stages(),
            "passes": planned.of_tiers(),
            "sources": planned.of_sources(sources),
        },
    }
