"""Stage train: the supervisor of the training process, itself without torch.

Reads work/tokenize, work/plan/plan.json and work/prepare/base.json; writes
work/train once, at the end. What a run needs to go on lies in runs/<key>/, which
no tool deletes. Every checkpoint is published to adapter/ and run_summary.json
as soon as it is whole. Run it with `dvc repro train`, or alone with
`python -m pipeline.train`.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import read_json
from pipeline.base.budget import Budget, open_budget
from pipeline.base.errors import UserError
from pipeline.base.params import Params
from pipeline.base.stage import run_stage
from pipeline.hardware.doctor.failure import ENDED, failure_line
from pipeline.learning.checkpoint import best_scored, discard_old, reject_damaged, step_of
from pipeline.learning.job import Job, describe, read_journal, start_journal
from pipeline.learning.record import method_name, write_results
from pipeline.learning.schedule import total_steps
from pipeline.learning.supervisor import (
    Supervisor,
    attempts_so_far,
    is_finished,
    record_attempt,
    refuse_second,
)
from pipeline.release.adapter import export_folder
from pipeline.release.publish import publish, published_summary

ROOT = Path()
PREPARED = Path("work/prepare/base.json")
PLAN = Path("work/plan/plan.json")
DATA = Path("work/tokenize")
OUT = Path("work/train")


def say(line: str) -> None:
    """One plain line in the log."""
    print(f"train: {line}", flush=True)


def device_names(machine: dict[str, Any], ranks: int, device: str) -> list[str]:
    """What a person calls the devices that train."""
    if device == "cpu":
        return [str(machine["cpu"]["model"])]
    return [str(gpu["name"]) for gpu in machine["gpus"][:ranks]]


def stop_time(params: Params, budget: Budget) -> float:
    """Epoch seconds at which training must end: what comes after it keeps its share."""
    evaluation = params.budget.evaluation_share * budget.allowed() / 2
    return budget.deadline - params.budget.reserve_minutes * 60 - evaluation


def last_save_reserve(params: Params) -> float:
    """Seconds of the reserve for the last save and hand-out; export and verify keep the rest."""
    return params.budget.reserve_minutes * 60 / 2


class Publisher:
    """Hands each new checkpoint out, and lets old ones go."""

    def __init__(
        self, job: Job, params: Params, budget: Budget, devices: list[str], attempt: int
    ) -> None:
        self.job, self.params, self.budget = job, params, budget
        self.devices, self.attempt = devices, attempt

    def __call__(self, folder: Path) -> None:
        """Publish a complete checkpoint as a partial adapter."""
        exported = self.job.run / "publishing"
        shutil.rmtree(exported, ignore_errors=True)
        export_folder(folder / "adapter", exported, self.params.export.dtype)
        done = publish(ROOT, exported, self._summary(folder), "partial")
        shutil.rmtree(exported)
        step = step_of(folder)
        total = total_steps(read_journal(self.job))
        kept = "published" if done else "saved; the finished adapter in place stays"
        print(f"train: checkpoint at step {step}/{total} {kept}", flush=True)
        spoken_of = published_summary(ROOT)
        spare = {Path(spoken_of["checkpoint_path"]).name} if spoken_of else set()
        best = best_scored(self.job.run, say)
        spare |= {best} if best else set()
        discard_old(self.job.run, self.params.train.keep_checkpoints, spare)

    def next_attempt(self) -> None:
        """The ranks are about to be started again after a hang."""
        self.attempt = record_attempt(self.job, self.devices)

    def _summary(self, folder: Path) -> dict[str, Any]:
        return {
            "method_name": method_name(self.job),
            "devices": self.devices,
            "total_elapsed_seconds": round(self.budget.used(), 1),
            "checkpoint_path": str(folder),
            "run_key": self.job.run.name,
            "step": step_of(folder),
            "steps_planned": total_steps(read_journal(self.job)),
            "base_fingerprint": self.job.base_fingerprint,
            "attempts": self.attempt,
        }


def main(params: Params) -> None:
    """Train, or go on, to the last planned step; then write work/train."""
    plan = read_json(PLAN)
    job = describe(params.train, read_json(PREPARED), plan, DATA)
    job.run.mkdir(parents=True, exist_ok=True)
    job.write()
    start_journal(job)
    reject_damaged(job.run, say)
    training = job.training
    devices = device_names(plan["machine"], training["ranks"], training["device"])
    budget = open_budget(ROOT, params.budget.hours)
    if not is_finished(job):
        refuse_second()
        (job.run / ENDED).unlink(missing_ok=True)
        attempt = record_attempt(job, devices)
        started = time.time()
        publisher = Publisher(job, params, budget, devices, attempt)
        supervisor = Supervisor(job, publisher, budget.beat, publisher.next_attempt)
        try:
            supervisor.run(stop_time(params, budget), last_save_reserve(params))
        except (UserError, RuntimeError, OSError) as error:
            say(failure_line(job.run, str(error)))
            raise
        print(f"train: attempt {publisher.attempt} took {time.time() - started:.0f} s", flush=True)
    record = write_results(job, devices, attempts_so_far(job), OUT)
    print(
        f"train: {record['steps']} steps ({record['ended_by']}), loss {record['final_loss']:.4f}, "
        f"{record['tokens_per_second']:,.0f} tokens/s"
    )


if __name__ == "__main__":
    raise SystemExit(run_stage("train", main))
