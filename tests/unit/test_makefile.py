"""Makefile: interpreters and folders with blanks in their names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.closure import ROOT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what `make` needs, and an interpreter in a folder with a blank."""
    folder = tmp_path / "a project"
    (folder / "requirements").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "requirements/environment.py").write_text(
        "import os, sys\nprint(os.path.dirname(os.environ.get('PYTHON') or sys.argv[0]))\n"
    )
    for name in ("bundle", "lock"):
        (folder / f"requirements/{name}.py").write_text("import sys; print(sys.argv[1:])")
    interpreter = folder / "my python/python"
    interpreter.parent.mkdir()
    interpreter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    interpreter.chmod(0o755)
    return folder


def make(project: Path, *arguments: str) -> str:
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    done = subprocess.run(
        ["make", *arguments], cwd=project, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_interpreter_with_a_blank_in_its_path(project: Path) -> None:
    python = project / "my python/python"
    assert make(project, "setup", f"PYTHON={python}") == f"setup: {python}"
    assert make(project, "setup", f"PYTHON3={python}") == "setup: requirements/python"
    assert make(project, "lock", f"PYTHON3={python}") == "[]"
    told = make(project, "bundle", f"PYTHON3={python}", "TARGET_PYTHON=3.12")
    assert told == "['--python', '3.12']"
    assert make(project, "contract-env", f"PYTHON3={python}") == "requirements"
