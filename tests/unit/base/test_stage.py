"""The runner: exit codes, one-line faults, and no stale output recorded as fresh."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.base.budget import CLOCK_FILE
from pipeline.base.errors import Interrupted, UserError
from pipeline.base.params import Params
from pipeline.base.stage import run_stage
from tests.support.closure import ROOT
from tests.support.settings import write_params

DVC_YAML = """
stages:
  filter:
    cmd: python -m pipeline.filter
    deps: [data.txt, folder]
    params: [filter, train.rank]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_params(tmp_path)
    (tmp_path / "dvc.yaml").write_text(DVC_YAML)
    (tmp_path / "data.txt").write_text("old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/inner.txt").write_text("old")
    return tmp_path


def quiet(params: Params) -> None:
    """Work that goes well."""


def test_good_work_ends_with_0_and_is_timed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Params] = []
    assert run_stage("filter", seen.append, project) == 0
    assert seen[0].train.rank == 16
    record = json.loads((project / "runs/stages/filter.json").read_text())
    assert record["stage"] == "filter"
    assert 0 <= record["seconds"] < 5
    assert (project / CLOCK_FILE).is_file()
    assert capsys.readouterr().out == "filter: done in 0s\n"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("a.jsonl:3: bad", "Mend it."), 2, "filter: a.jsonl:3: bad. Mend it.\n"),
        (Interrupted("stopped at step 3"), 130, "filter: stopped at step 3\n"),
        (
            OSError(errno.ENOSPC, "full", "/x/y"),
            2,
            "filter: /x/y: no space left. Free some space and run again.\n",
        ),
        (
            PermissionError(errno.EACCES, "no", "/x/y"),
            2,
            "filter: /x/y: permission denied. Give this user the right to it.\n",
        ),
        (
            OSError(errno.EROFS, "no", "/x/y"),
            2,
            "filter: /x/y: cannot be written. Make the project's folder writable, or copy it "
            "elsewhere.\n",
        ),
    ],
)
def test_faults_are_one_line(
    project: Path, capsys: pytest.CaptureFixture[str], error: Exception, code: int, line: str
) -> None:
    def work(params: Params) -> None:
        raise error

    assert run_stage("filter", work, project) == code
    assert capsys.readouterr().err == line
    assert not (project / "runs/stages/filter.json").exists()


def test_a_bug_shows_where_it_is(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def work(params: Params) -> None:
        raise ZeroDivisionError("oops")

    assert run_stage("filter", work, project) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("filter: internal error: ZeroDivisionError: oops\n")


def edit_data(project: Path) -> None:
    (project / "data.txt").write_text("new")


def edit_inside_folder(project: Path) -> None:
    (project / "folder/inner.txt").write_text("newer")


def add_to_folder(project: Path) -> None:
    (project / "folder/more.txt").write_text("x")


def remove_data(project: Path) -> None:
    (project / "data.txt").unlink()


def edit_section(project: Path) -> None:
    write_params(project, **{"filter.english_only": False})


def edit_key(project: Path) -> None:
    write_params(project, **{"train.rank": 8})


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (edit_data, "data.txt"),
        (edit_inside_folder, "folder/inner.txt"),
        (add_to_folder, "folder/more.txt"),
        (remove_data, "data.txt"),
        (edit_section, "params.yaml filter"),
        (edit_key, "params.yaml train.rank"),
    ],
)
def test_an_input_that_changes_while_the_stage_runs_fails_it(
    project: Path, capsys: pytest.CaptureFixture[str], edit: object, told: str
) -> None:
    assert run_stage("filter", lambda params: edit(project), project) == 2  # type: ignore[operator]
    assert f"changed while the stage ran: {told}. Run again" in capsys.readouterr().err


def test_a_setting_of_another_stage_may_change_meanwhile(project: Path) -> None:
    def work(params: Params) -> None:
        write_params(project, **{"report.title": "Another"})

    assert run_stage("filter", work, project) == 0


def test_bad_params_are_the_users_to_mend(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "params.yaml").write_text("train: 3\n")
    assert run_stage("filter", quiet, project) == 2
    assert "params.yaml" in capsys.readouterr().err


def test_without_dvc_yaml_a_stage_runs_alone(project: Path) -> None:
    (project / "dvc.yaml").unlink()
    assert run_stage("filter", quiet, project) == 0


def test_importing_any_stage_keeps_the_libraries_off_the_network() -> None:
    program = "import pipeline.filter, os; print(os.environ['HF_HUB_OFFLINE'])"
    done = subprocess.run(
        [sys.executable, "-c", program], env={}, cwd=ROOT, capture_output=True, check=False
    )
    assert done.stdout == b"1\n"
