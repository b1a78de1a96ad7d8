"""Inputs, settings and the merging consumer of the executor's tests."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from pipeline.base.params_corpus import ExecutorParams
from pipeline.base.progress import Progress
from pipeline.corpus.execution.executor import run_shards
from pipeline.corpus.execution.scratch import merge_files
from pipeline.corpus.execution.shards import line_shards
from pipeline.corpus.execution.watch import Task
from tests.unit.corpus.execution import tasks

LINES = 60
EXPECTED = "".join(f'{n} {{"n": {n}}}\n' for n in range(1, LINES + 1))


def settings(**changes: Any) -> ExecutorParams:
    values: dict[str, Any] = {
        "backend": "processes", "workers": 2, "address": "auto", "shard_mib": 1.0,
        "row_seconds": 0.4, "worker_gib": 0.5,
    }  # fmt: skip
    return ExecutorParams(**{**values, **changes})


def quiet() -> Progress:
    return Progress("copy", "rows", None, stream=io.StringIO())


def write_input(folder: Path) -> Path:
    path = folder / "in.jsonl"
    path.write_text("".join(f'{{"n": {n}}}\n' for n in range(1, LINES + 1)))
    return path


def run(
    folder: Path,
    acts: dict[int, str] | None = None,
    shard_bytes: int = 200,
    task: Task = tasks.copy,
    witness: str = "",
    progress: Progress | None = None,
    **changes: Any,
) -> list[Path]:
    """Run a task over the input; the shards' folders."""
    shards = line_shards(write_input(folder), shard_bytes)
    job = tasks.Job(acts or {}, witness)
    return run_shards(
        "copy", task, job, shards, folder / "scratch", settings(**changes),
        progress or quiet(), [shard.bytes for shard in shards],
    )  # fmt: skip


def merged(folders: list[Path], name: str = "out.txt") -> str:
    target = folders[0].parent / "merged.tmp"
    merge_files(folders, name, target)
    text = target.read_text()
    target.unlink()
    return text


def expected_without(*lines: int) -> str:
    kept = [n for n in range(1, LINES + 1) if n not in lines]
    return "".join(f'{n} {{"n": {n}}}\n' for n in kept)
