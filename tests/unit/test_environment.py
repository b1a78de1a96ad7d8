"""The set-up script: chosen interpreter, honest stamps, messages that help."""

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
    """A project with nothing to install and no way to fetch anything."""
    folder = tmp_path / "project with a blank"
    (folder / "requirements").mkdir(parents=True)
    shutil.copy(ROOT / "requirements/environment.py", folder / "requirements")
    for name in ("contract", "newest", "dev", "vocabularies", "embedded", "semantic"):
        (folder / f"requirements/{name}.lock").write_text("# nothing\n")
    return folder


def run(project: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    return subprocess.run(
        [sys.executable, str(project / "requirements/environment.py"), *arguments],
        env=kept | {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_given_interpreter_is_used_and_nothing_is_installed(project: Path) -> None:
    done = run(project, PYTHON=sys.executable)
    assert (done.returncode, done.stderr) == (0, "")
    shim = Path(done.stdout.strip()) / "python"
    assert shim == project / "runs/bin/python"
    program = "import sys; print(sys.executable, sys.argv[1:])"
    told = subprocess.run([shim, "-c", program, "a b"], capture_output=True, text=True, check=True)
    assert told.stdout == f"{sys.executable} ['a b']\n"
    assert not (project / ".venv").exists()


def test_a_given_interpreter_that_is_not_there_is_named(project: Path) -> None:
    done = run(project, PYTHON="/no/such/python")
    assert done.returncode == 2
    assert "PYTHON=/no/such/python: no such program" in done.stderr


def test_an_unknown_stack_lists_those_that_there_are(project: Path) -> None:
    done = run(project, "--stack", "oldest")
    assert done.returncode == 2
    assert "STACK=oldest is unknown. Choose one of: contract, newest." in done.stderr


@pytest.mark.slow
def test_an_environment_is_made_once(project: Path) -> None:
    first = run(project)
    assert first.returncode == 0, first.stderr
    assert "setup: .venv is ready" in first.stderr
    bin_folder = Path(first.stdout.strip())
    assert bin_folder == project / ".venv/bin"
    assert (bin_folder / "python").exists()
    again = run(project)
    assert (again.stdout, again.stderr) == (first.stdout, "")


@pytest.mark.slow
def test_a_failed_set_up_is_never_taken_for_a_good_one(project: Path) -> None:
    lock = project / "requirements/contract.lock"
    lock.write_text("no-such-package-anywhere==1.0\n")
    for _ in range(2):
        done = run(project)
        assert done.returncode == 2
        assert done.stdout == ""
        assert "No matching distribution found for no-such-package-anywhere" in done.stderr
        assert "pip.log" in done.stderr
    lock.write_text("# mended\n")
    assert run(project).returncode == 0
    lock.write_text("no-such-package-anywhere==1.0\n")  # a changed lock is installed again
    assert run(project).returncode == 2
