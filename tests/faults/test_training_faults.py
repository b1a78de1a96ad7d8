"""Kills, signals and clocks: what a trainer leaves behind and how it goes on."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.artifacts import is_complete, sha256_file
from pipeline.base.errors import EXIT_INTERRUPTED, Interrupted, UserError
from pipeline.base.lock import hold
from pipeline.learning.checkpoint import all_checkpoints, as_rows, newest_complete
from pipeline.learning.job import LOCK_FILE, Job, read_journal
from pipeline.learning.launch import command
from pipeline.learning.record import write_results
from pipeline.learning.supervisor import (
    Supervisor,
    is_finished,
    newest_step,
    record_attempt,
)
from tests.support.packed import make_job, write_packed
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base

ROOT = Path(__file__).resolve().parents[2]
LATER = 3600.0
STEPS = 40


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp("faults") / "base", "qwen3")


@pytest.fixture
def new_job(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Job]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    data = write_packed(tmp_path / "data")

    def make(settings: dict[str, Any] | None = None, **plan: Any) -> Job:
        defaults = {"train.steps": STEPS, "train.checkpoint_every_steps": 3, "train.dropout": 0.1}
        return make_job(base, data, make_params(**{**defaults, **(settings or {})}), **plan)

    return make


TOOK = [15.0]
"""Seconds that whole runs took here: how long a machine needs for a start and some steps."""


def train(job: Job, stop_at: float | None = None) -> list[Path]:
    seen: list[Path] = []
    started = time.time()
    Supervisor(job, seen.append, lambda: None).run(stop_at or started + LATER)
    TOOK.append(time.time() - started)
    return seen


def soon() -> float:
    """A time to stop at that leaves some steps also on a busy machine."""
    return time.time() + 1.5 * max(TOOK[-3:])


def assert_ended_in_time(rows: list[dict[str, Any]]) -> None:
    """No more than the step at work was late."""
    times = [row["seconds"] for row in rows]
    longest = max(b - a for a, b in itertools.pairwise([0.0, *times]))
    assert rows[-1]["budget_left_seconds"] > -longest - 0.5


def start_worker(job: Job) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(job, time.time() + LATER))


def wait_for_step(job: Job, step: int, child: subprocess.Popen[bytes]) -> None:
    """Until the worker has made `step` steps; checks in short intervals."""
    for _ in range(30_000):
        rows = as_rows(job.steps_file)
        if rows and rows[-1]["step"] >= step:
            return
        assert child.poll() is None, "the worker ended too early"
        time.sleep(0.01)
    raise AssertionError(f"step {step} was not reached")


def adapter_hash(job: Job) -> str:
    folder = newest_complete(job.run, print)
    assert folder is not None
    return sha256_file(folder / "adapter" / "adapter_model.safetensors")


@pytest.fixture
def unbroken(new_job: Callable[..., Job]) -> tuple[str, list[dict[str, Any]]]:
    """Hash and figures of a run that nothing disturbed; its folder is then set aside."""
    job = new_job()
    train(job)
    result = adapter_hash(job), as_rows(job.steps_file)
    job.run.rename("undisturbed")
    return result


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What of the figures does not depend on the machine's speed and memory."""
    measured = {"seconds", "tokens_per_second", "mfu", "memory_gib", "budget_left_seconds"}
    return [{k: v for k, v in row.items() if k not in measured} for row in rows]


def test_killed_anywhere_the_run_ends_with_the_same_bytes(
    new_job: Callable[..., Job],
    unbroken: tuple[str, list[dict[str, Any]]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    job = new_job()
    for step in sorted(random.sample(range(1, STEPS - 2), 5)):
        print(f"killed after step {step}")
        child = start_worker(job)
        wait_for_step(job, step, child)
        child.kill()
        child.wait()
    train(job)
    assert "resumed from" in capfd.readouterr().out
    assert adapter_hash(job) == unbroken[0]
    assert comparable(as_rows(job.steps_file)) == comparable(unbroken[1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_the_last_completed_step(
    new_job: Callable[..., Job], unbroken: tuple[str, list[dict[str, Any]]], number: signal.Signals
) -> None:
    job = new_job({"train.checkpoint_every_steps": None})
    child = start_worker(job)
    wait_for_step(job, 5, child)
    child.send_signal(number)
    assert child.wait(timeout=60) == EXIT_INTERRUPTED
    saved = newest_complete(job.run, print)
    assert saved is not None
    assert int(saved.name[-6:]) == as_rows(job.steps_file)[-1]["step"] >= 5
    train(job)
    assert adapter_hash(job) == unbroken[0]


def test_the_supervisor_passes_a_signal_on_and_says_so(new_job: Callable[..., Job]) -> None:
    job = new_job()
    asked: list[int] = []

    def beat() -> None:
        if not asked and len(as_rows(job.steps_file)) >= 4:
            asked.append(1)
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match="run again"):
        Supervisor(job, lambda _: None, beat).run(time.time() + LATER)
    assert any(is_complete(folder) for folder in all_checkpoints(job.run))
    assert not is_finished(job)


def test_a_worker_whose_supervisor_is_gone_saves_and_ends(new_job: Callable[..., Job]) -> None:
    job = new_job({"train.steps": 100_000, "train.checkpoint_every_steps": None})
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({command(job, time.time() + LATER)!r})\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    wait_for_step(job, 3, parent)  # type: ignore[arg-type]
    parent.kill()
    parent.wait()
    for _ in range(600):
        if not Path(f"/proc/{worker}").exists():
            break
        time.sleep(0.1)
    assert not Path(f"/proc/{worker}").exists()
    assert newest_complete(job.run, print) is not None


def test_a_second_trainer_is_refused_while_the_first_lives(new_job: Callable[..., Job]) -> None:
    job = new_job()
    with hold(LOCK_FILE, "a trainer"):
        with pytest.raises(UserError, match=f"already running \\(pid {os.getpid()}\\)"):
            train(job)
        done = subprocess.run(command(job, time.time() + LATER), capture_output=True, text=True)
        assert done.returncode == 2
        assert "already running" in done.stderr
    assert not all_checkpoints(job.run)


def test_a_clock_that_runs_out_cuts_the_run_with_the_rate_at_its_end(
    new_job: Callable[..., Job],
) -> None:
    job = new_job({"train.steps": 200_000, "train.checkpoint_every_steps": 50})
    train(job, soon())
    rows, journal = as_rows(job.steps_file), read_journal(job)
    peak = max(row["learning_rate"] for row in rows)
    assert journal[-1].why == "budget"
    assert journal[-1].total == rows[-1]["step"] < 200_000
    assert rows[-1]["learning_rate"] < 0.05 * peak
    assert_ended_in_time(rows)
    record = write_results(job, ["cpu"], 1, Path("work/train"))
    assert record["ended_by"] == "budget"


def test_a_clock_that_has_run_out_still_leaves_an_adapter_that_learnt(
    new_job: Callable[..., Job],
) -> None:
    job = new_job()
    train(job, time.time() - 5)
    assert [row["step"] for row in as_rows(job.steps_file)] == [1]
    assert as_rows(job.steps_file)[0]["learning_rate"] > 0
    assert is_finished(job)


def test_a_replan_is_replayed_exactly_after_a_kill(new_job: Callable[..., Job]) -> None:
    job = new_job()
    entries = '{"step": 0, "total": 40, "why": "plan"}\n{"step": 5, "total": 12, "why": "budget"}\n'
    job.journal_file.write_text(entries)
    train(job)
    once, rows = adapter_hash(job), as_rows(job.steps_file)
    job.run.rename("once")
    job = new_job()
    job.journal_file.write_text(entries)
    child = start_worker(job)
    wait_for_step(job, 7, child)
    child.kill()
    child.wait()
    train(job)
    assert adapter_hash(job) == once
    assert comparable(as_rows(job.steps_file)) == comparable(rows)
    assert len(rows) == 12


def test_non_finite_numbers_stop_the_run_with_no_new_checkpoint(
    new_job: Callable[..., Job],
) -> None:
    job = new_job({"train.learning_rate": 1e30, "train.clip_norm": 1e30})
    with pytest.raises(UserError, match=r"train\.learning_rate"):
        train(job)
    last = as_rows(job.steps_file)[-1]["step"]
    assert all(int(f.name[-6:]) <= last for f in all_checkpoints(job.run))
    assert not is_finished(job)


def test_two_ranks_end_with_the_losses_of_one(
    new_job: Callable[..., Job], unbroken: tuple[str, list[dict[str, Any]]]
) -> None:
    job = new_job({"train.dropout": 0.0}, ranks=2, micro_batch_sequences=1)
    train(job)
    both = [row["loss"] for row in as_rows(job.steps_file)]
    job.run.rename("both")
    train(new_job({"train.dropout": 0.0}))
    assert both == pytest.approx([r["loss"] for r in as_rows(job.steps_file)], abs=1e-4)
    assert len(both) == len(unbroken[1])


def test_one_rank_then_two_with_a_whole_and_a_spread_base_then_one_go_on_with_the_same_losses(
    new_job: Callable[..., Job],
) -> None:
    settings = {"train.dropout": 0.0, "train.steps": 24, "train.checkpoint_every_steps": 1}
    plan = {"micro_batch_sequences": 1}
    train(new_job(settings, **plan))
    job = new_job(settings, **plan)
    whole = [row["loss"] for row in as_rows(job.steps_file)]
    job.run.rename("whole")
    for ranks, until, parallel in ((1, 5, "replicas"), (2, 11, "replicas"), (2, 17, "sharded")):
        job = new_job(settings, ranks=ranks, parallel=parallel, **plan)
        supervisor = Supervisor(job, lambda _: None, lambda: None)

        def beat(supervisor: Supervisor = supervisor, until: int = until) -> None:
            rows = as_rows(supervisor.job.steps_file)
            if rows and rows[-1]["step"] >= until:
                for rank in supervisor.ranks:
                    rank.kill()

        supervisor.beat = beat
        with pytest.raises(RuntimeError, match="-9"):
            supervisor.run(time.time() + LATER)
        assert until <= newest_step(job) + 1 < 24
    job = new_job(settings, **plan)
    train(job)
    rows = as_rows(job.steps_file)
    assert [row["loss"] for row in rows] == pytest.approx(whole, abs=1e-4)
    assert [row["step"] for row in rows] == list(range(1, 25))


def test_missing_data_stops_every_rank_at_once(
    new_job: Callable[..., Job], capfd: pytest.CaptureFixture[str]
) -> None:
    job = new_job(ranks=2, micro_batch_sequences=1)
    (job.data / "trained.npy").unlink()
    supervisor = Supervisor(job, lambda _: None, lambda: None)
    with pytest.raises(UserError, match="could not start"):
        supervisor.run(time.time() + LATER)
    assert {rank.returncode for rank in supervisor.ranks} <= {2, -signal.SIGTERM, 130}
    assert "trained.npy" in capfd.readouterr().err


@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_to_one_rank_saves_and_ends_all(new_job: Callable[..., Job], rank: int) -> None:
    settings = {"train.steps": 100_000, "train.checkpoint_every_steps": None}
    job = new_job(settings, ranks=2, micro_batch_sequences=1, sequences_per_step=32)
    supervisor = Supervisor(job, lambda _: None, lambda: None)

    def beat() -> None:
        if len(as_rows(job.steps_file)) >= 4:
            supervisor.ranks[rank].send_signal(signal.SIGTERM)

    supervisor.beat = beat
    with pytest.raises(Interrupted):
        supervisor.run(time.time() + LATER)
    saved = newest_complete(job.run, print)
    assert saved is not None
    assert int(saved.name[-6:]) == as_rows(job.steps_file)[-1]["step"]
    assert all(r.returncode == EXIT_INTERRUPTED for r in supervisor.ranks)


def test_a_rank_that_crashes_brings_the_run_to_an_end(new_job: Callable[..., Job]) -> None:
    job = new_job({"train.steps": 100_000}, ranks=2, micro_batch_sequences=1)
    supervisor = Supervisor(job, lambda _: None, lambda: None)

    def beat() -> None:
        if len(as_rows(job.steps_file)) >= 4:
            supervisor.ranks[1].kill()

    supervisor.beat = beat
    with pytest.raises(RuntimeError, match="-9"):
        supervisor.run(time.time() + LATER)
    assert all(r.returncode is not None for r in supervisor.ranks)
    train(new_job({"train.steps": 100_000}), time.time() + 8)


def test_a_journal_ahead_of_a_clock_that_ran_out_is_cut(new_job: Callable[..., Job]) -> None:
    job = new_job({"train.steps": 100_000})
    job.journal_file.write_text(
        '{"step": 0, "total": 100000, "why": "plan"}\n'
        '{"step": 90000, "total": 95000, "why": "budget"}\n'
    )
    train(job, soon())
    assert_ended_in_time(as_rows(job.steps_file))
    assert [entry.why for entry in read_journal(job)][:2] == ["plan", "budget"]
    assert read_journal(job)[1].step < 90000


def test_a_hangup_that_was_ignored_stays_ignored(new_job: Callable[..., Job]) -> None:
    job = new_job()
    shell = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh"]
    child = subprocess.Popen([*shell, *command(job, time.time() + LATER)])
    wait_for_step(job, 3, child)
    child.send_signal(signal.SIGHUP)
    assert child.wait(timeout=120) == 0


def test_missing_data_stops_at_once_with_one_line(new_job: Callable[..., Job]) -> None:
    job = new_job()
    (job.data / "tokens.npy").unlink()
    done = subprocess.run(command(job, time.time() + LATER), capture_output=True, text=True)
    assert done.returncode == 2
    assert "tokens.npy" in done.stderr
    assert "Traceback" not in done.stderr


def test_attempts_are_numbered_and_a_change_is_said(
    new_job: Callable[..., Job], capsys: pytest.CaptureFixture[str]
) -> None:
    job = new_job()
    assert record_attempt(job, ["cpu"]) == 1
    assert record_attempt(job, ["cpu"]) == 2
    assert capsys.readouterr().out == ""
    job.training["micro_batch_sequences"] = 1
    assert record_attempt(job, ["cpu"]) == 3
    assert "training changed since attempt 2" in capsys.readouterr().out
