"""A run of two stages that is stopped, moved to two ranks and back goes on as if undisturbed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.errors import Interrupted
from pipeline.learning.checkpoint import as_rows
from pipeline.learning.job import Job, read_journal
from pipeline.learning.record import write_results
from pipeline.learning.supervisor import Supervisor
from tests.support.packed import TWO_STAGES, TWO_TIERS, make_job, write_packed
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base

ROOT = Path(__file__).resolve().parents[2]
STEPS = 60
SETTINGS: dict[str, Any] = {"train.steps": STEPS, "train.checkpoint_every_steps": None}


@pytest.fixture
def new_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Job]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    # The signal must come long before the last of the quick steps.
    monkeypatch.setattr("pipeline.learning.supervisor.POLL_SECONDS", 0.01)
    base = write_tiny_base(tmp_path / "base", "qwen3")
    data = write_packed(tmp_path / "data", buckets=TWO_TIERS)

    def make(ranks: int = 1) -> Job:
        plan = {"ranks": ranks, "micro_batch_sequences": 2 // ranks, "stages": TWO_STAGES}
        return make_job(base, data, make_params(**SETTINGS), **plan)

    return make


def train(job: Job, until: int | None = None) -> None:
    """To the end, or till a signal to one of the ranks after step `until`."""
    supervisor = Supervisor(job, lambda _: None, lambda: None)

    def beat() -> None:
        rows = as_rows(job.steps_file)
        if until is not None and rows and rows[-1]["step"] >= until:
            supervisor.ranks[-1].send_signal(signal.SIGTERM)

    supervisor.beat = beat
    if until is None:
        supervisor.run(time.time() + 3600)
        return
    with pytest.raises(Interrupted):
        supervisor.run(time.time() + 3600)


def test_one_rank_then_two_then_one_train_the_same_slots(
    new_job: Callable[..., Job], capfd: pytest.CaptureFixture[str]
) -> None:
    undisturbed = new_job()
    train(undisturbed)
    expected = as_rows(undisturbed.steps_file)
    assert "stage 2 of 2: sequences of 64 tokens" in capfd.readouterr().out
    undisturbed.run.rename("undisturbed")

    for ranks, until in ((1, 5), (2, 35), (1, None)):
        job = new_job(ranks)
        train(job, until)
    rows = as_rows(job.steps_file)
    assert len(rows) == STEPS
    # The tokens of every step tell which bins it trained; their order, the losses.
    assert [row["tokens"] for row in rows] == [row["tokens"] for row in expected]
    assert [row["loss"] for row in rows] == pytest.approx([r["loss"] for r in expected], abs=1e-4)

    record = write_results(job, ["cpu"], 3, Path("work/train"))
    stages = record["curriculum"]["stages"]
    assert [one["steps"] for one in stages] == [30, 30]
    assert sum(one["tokens"] for one in stages) == record["tokens"] == rows[-1]["tokens"]
    assert stages[0]["tokens"] == rows[29]["tokens"]
    assert stages[1]["first_loss"] == rows[30]["loss"]
    assert record["curriculum"]["planned"]["stages"] == [
        {k: v for k, v in one.items() if "loss" not in k} for one in stages
    ]
    assert record["recipe"]["plan.stages"] == TWO_STAGES
    assert len(read_journal(job)) == 1
