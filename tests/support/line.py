"""The whole line in a folder of its own: a tiny base, a few rows, every real stage."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.base.budget import DEADLINE_VARIABLE
from pipeline.embedded.traces import generate
from tests.support.closure import ROOT
from tests.support.settings import write_params
from tests.support.tiny import write_tiny_base

PARTS = ("pipeline", "requirements", "presets", "dvc.yaml", "train.sh", "Makefile", ".dvcignore")

SMALL: dict[str, Any] = {
    "train.steps": 150,
    "train.checkpoint_every_steps": 10,
    "train.tokens_per_step": 512,
    "plan.sequence_tokens": 256,
    "evaluation.problems": 4,
    "evaluation.samples_per_problem": 1,
    "evaluation.max_new_tokens": 8,
    "data.sources": ["inputs/traces.jsonl"],
    "data.panel": "inputs/panel.jsonl",
    "base.path": "inputs/base",
}


def write_project(folder: Path, **overrides: Any) -> Path:
    """A copy of the project without git, with small inputs and settings."""
    folder.mkdir(parents=True)
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, folder / name)
    write_tiny_base(folder / "inputs/base")
    material = generate(160, 0)
    for name, lines in (("traces", material.traces), ("panel", material.panel)):
        (folder / f"inputs/{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_params(folder, **{**SMALL, **overrides})
    return folder


def start(project: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """./train.sh in a session of its own, with this interpreter, its output piped."""
    environment = {k: v for k, v in os.environ.items() if k != DEADLINE_VARIABLE}
    environment |= {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1", **variables}
    return subprocess.Popen(
        [str(project / "train.sh"), *arguments],
        cwd="/",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(project: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """Exit code and output of a whole run."""
    child = start(project, *arguments, **variables)
    output, _ = child.communicate(timeout=600)
    return child.returncode, output


def run_until(project: Path, is_time: Callable[[str], bool]) -> str:
    """Start a run and SIGKILL its process group once a line of output says so.

    Returns the output so far; fails when the run ended by itself before.
    """
    child = start(project)
    assert child.stdout is not None
    lines = []
    for line in child.stdout:
        lines.append(line)
        if is_time(line):
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return "".join(lines)
    raise AssertionError("the run ended before its time:\n" + "".join(lines))


def python(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`python ...` in the project's folder."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=project, capture_output=True, text=True, check=False
    )
