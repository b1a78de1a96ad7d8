"""A step that hangs is reported with its stacks and ended, and the run goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.artifacts import MARKER
from pipeline.base.errors import EXIT_INTERRUPTED, Interrupted, UserError
from pipeline.learning import launch, supervisor
from pipeline.learning.checkpoint import as_rows, newest_complete, step_of
from pipeline.learning.job import Job
from pipeline.learning.supervisor import FRUITLESS_HANGS, Supervisor, is_finished
from tests.support.packed import make_job, write_packed
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base

ROOT = Path(__file__).resolve().parents[2]
LATER = 3600.0
STEPS = 8


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp("hangs") / "base", "qwen3")


@pytest.fixture
def new_job(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Job]:
    """Jobs whose worker hangs in the steps of HANG_AT."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(launch, "WORKER", "tests.support.hanging")
    data = write_packed(tmp_path / "data")

    def make(**plan: int) -> Job:
        settings: dict[str, Any] = {"train.steps": STEPS, "train.checkpoint_every_steps": 2}
        return make_job(base, data, make_params(**settings), **plan)

    return make


def test_a_hung_rank_is_reported_ended_and_the_run_goes_on(
    new_job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HANG_AT", "6")
    monkeypatch.setenv("HANG_RANK", "1")
    job = new_job(ranks=2, micro_batch_sequences=1)
    resumed: list[int] = []
    Supervisor(job, lambda _: None, lambda: None, lambda: resumed.append(1)).run(
        time.time() + LATER
    )
    said = capfd.readouterr()
    assert "train: rank 1 made no progress for" in said.out
    assert "in step 6 (limit" in said.out
    assert "going on from step 4" in said.out
    # The stack of the rank that sleeps in C, and of the one that waits for it.
    _, waiting, sleeping = said.out.split("train: stacks of rank ")
    assert re.search(r'hanging\.py", line \d+ in hang', sleeping)
    assert "in _anyone_stopped" in waiting
    assert resumed == [1]
    assert is_finished(job)
    assert [row["step"] for row in as_rows(job.steps_file)] == list(range(1, STEPS + 1))
    assert as_rows(job.run / "hangs.jsonl")[0]["saved_step"] == 4


def test_a_signal_during_a_save_ends_after_that_save(
    new_job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNAL_IN_SAVE", "1")
    job = new_job()
    done = subprocess.run(launch.command(job, time.time() + LATER), check=False)
    assert done.returncode == EXIT_INTERRUPTED
    saved = newest_complete(job.run, print)
    assert saved is not None
    assert step_of(saved) == as_rows(job.steps_file)[-1]["step"] == 2


@pytest.fixture
def stub_job(
    new_job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, int], Job]:
    """Jobs whose ranks have no model and only do what they are told."""

    def make(what: str, ranks: int) -> Job:
        monkeypatch.setattr(launch, "WORKER", "tests.support.stub_rank")
        monkeypatch.setattr(supervisor, "DUMP_SECONDS", 0.5)
        monkeypatch.setenv("STUB", what)
        return new_job(ranks=ranks)

    return make


def test_a_run_that_hangs_at_the_same_place_is_given_up(
    stub_job: Callable[[str, int], Job], capfd: pytest.CaptureFixture[str]
) -> None:
    job = stub_job("hangs", 1)
    started: list[int] = []
    watching = Supervisor(job, lambda _: None, lambda: None, lambda: started.append(1))
    with pytest.raises(UserError, match=rf"hung {FRUITLESS_HANGS} times in a row after step 0"):
        watching.run(time.time() + LATER)
    assert len(started) == FRUITLESS_HANGS - 1
    assert len(as_rows(job.run / "hangs.jsonl")) == FRUITLESS_HANGS
    assert capfd.readouterr().out.count("made no progress") == FRUITLESS_HANGS


def test_new_checkpoints_between_the_hangs_keep_the_run_going(
    stub_job: Callable[[str, int], Job],
) -> None:
    job = stub_job("hangs", 1)
    more = iter(range(2, 2 * FRUITLESS_HANGS + 4, 2))

    def resume() -> None:
        number = next(more)
        folder = job.run / f"checkpoint-{number:06d}"
        folder.mkdir()
        (folder / MARKER).write_text("{}")

    # The last of these is the run's last step, after which a hang is no loss.
    Supervisor(job, lambda _: None, lambda: None, resume).run(time.time() + LATER)
    assert len(as_rows(job.run / "hangs.jsonl")) == STEPS // 2 + 1 > FRUITLESS_HANGS


def test_a_hung_rank_does_not_outlive_a_request_to_end(
    stub_job: Callable[[str, int], Job],
) -> None:
    job = stub_job("hangs", 1)
    asked: list[int] = []

    def beat() -> None:
        if not asked and (job.run / "hangs").exists():
            asked.append(1)
            os.kill(os.getpid(), signal.SIGTERM)

    watching = Supervisor(job, lambda _: None, beat)
    with pytest.raises(Interrupted):
        watching.run(time.time() + LATER)
    assert watching.ranks[0].returncode == -signal.SIGKILL


def test_a_rank_that_waits_for_a_save_is_not_taken_for_hung(
    stub_job: Callable[[str, int], Job],
) -> None:
    job = stub_job("waits", 2)
    seen: list[bool] = []

    def beat() -> None:
        seen.append(watching.listeners[1].overdue)
        if sum(seen) > 3:
            (job.run / "release").touch()

    watching = Supervisor(job, lambda _: None, beat)
    watching.run(time.time() + LATER)
    assert sum(seen) > 3
    assert not watching.hangs
