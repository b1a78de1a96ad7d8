"""The command that starts the wall clock of a job."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from pipeline.base.budget import CLOCK_FILE, DEADLINE_VARIABLE, open_budget
from pipeline.clock import begin, main
from tests.support.settings import write_params


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(DEADLINE_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path, **{"budget.hours": 2.0})
    return tmp_path


def no_timer() -> float | None:
    return None


def test_the_deadline_counts_from_when_the_script_started(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.time() - 600  # the set-up took ten minutes
    assert main(["--started", str(started)], no_timer) == 0
    told = capsys.readouterr()
    assert abs(float(told.out) - (started + 7200)) < 1
    assert "1h50m left of a budget of 2 h" in told.err
    assert open_budget(project, 2.0).used() >= 600


def test_without_a_start_it_counts_from_now(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], no_timer) == 0
    assert abs(float(capsys.readouterr().out) - time.time() - 7200) < 5


def test_the_machines_timer_wins_when_it_is_shorter(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert begin(project, 1000.0, lambda: 60.0, now=lambda: 1100.0) == 1160
    assert "by the machine's timer" in capsys.readouterr().err
    (project / CLOCK_FILE).unlink()
    assert begin(project, 1000.0, lambda: 99_999.0, now=lambda: 1100.0) == 8200
    assert "by the machine's timer" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [OSError("broken"), subprocess.TimeoutExpired("sandbox-timer", 30)]
)
def test_a_timer_that_fails_does_not_stop_the_job(
    project: Path, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def timer() -> float | None:
        raise error

    assert begin(project, 1000.0, timer, now=lambda: 1000.0) == 8200
    assert "the machine's timer failed" in capsys.readouterr().err


def test_a_used_up_budget_says_what_to_do(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_params(project, **{"budget.hours": 0.001})
    deadline = begin(project, 1000.0, no_timer, now=lambda: 2000.0)
    assert deadline < 2000
    assert "Raise `budget.hours`" in capsys.readouterr().err


def test_time_of_an_unfinished_job_counts(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(project, 1000.0, no_timer, now=lambda: 1000.0)
    record = json.loads((project / CLOCK_FILE).read_text())
    (project / CLOCK_FILE).write_text(json.dumps(record | {"heartbeat": 4600.0}))
    assert begin(project, 50_000.0, no_timer, now=lambda: 50_000.0) == 53_600
    assert "1h00m used before" in capsys.readouterr().err


def test_another_job_is_told_of_its_fresh_clock(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(project, 1000.0, no_timer, now=lambda: 1000.0)
    record = json.loads((project / CLOCK_FILE).read_text())
    assert record["job"] == "embedded with embedded"
    (project / CLOCK_FILE).write_text(json.dumps(record | {"heartbeat": 4600.0}))
    capsys.readouterr()
    write_params(project, **{"budget.hours": 2.0, "data.sources": ["other.jsonl"]})
    assert begin(project, 5000.0, no_timer, now=lambda: 5000.0) == 12_200
    assert "a fresh clock, the open one was of embedded with embedded" in capsys.readouterr().err
    begin(project, 5000.0, no_timer, now=lambda: 5000.0)
    assert "fresh clock" not in capsys.readouterr().err


def test_bad_params_end_it_in_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "params.yaml").unlink()
    assert main([], no_timer) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("text", ["{}", "[]", "{"])
def test_a_damaged_clock_is_one_line(
    project: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (project / CLOCK_FILE).parent.mkdir(exist_ok=True)
    (project / CLOCK_FILE).write_text(text)
    assert main([], no_timer) == 2
    assert "clock.json" in capsys.readouterr().err


def test_a_deadline_is_never_rounded_into_the_future(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], lambda: 0.0) == 0
    assert float(capsys.readouterr().out) <= time.time()
