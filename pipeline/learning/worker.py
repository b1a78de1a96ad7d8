"""The training process: loads the base, runs steps, saves checkpoints.

Started by the supervisor (`python -m pipeline.train`), one process a device:
`python -m pipeline.learning.worker runs/<key> --stop-at UNIX`. Reads job.json and
work/tokenize; writes checkpoints, journal.jsonl and, through telemetry.py, steps.jsonl
in the run's folder. Exit codes: 0 finished, 2 bad input, 3 not finite, 130 stopped by
a signal with its state saved.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import PartialState

from pipeline.base.errors import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NON_FINITE,
    EXIT_OK,
    UserError,
)
from pipeline.base.lock import hold
from pipeline.learning import checkpoint, schedule
from pipeline.learning.accounting import planned_sentence
from pipeline.learning.clock import Clock
from pipeline.learning.data import PackedData
from pipeline.learning.job import LOCK_FILE, Job, read_job, read_journal, write_journal
from pipeline.learning.kernels import attention_backends
from pipeline.learning.last_words import error_file, keep_last_words
from pipeline.learning.loss import DocumentLoss
from pipeline.learning.model import build
from pipeline.learning.noise import add_noise
from pipeline.learning.optimizers import make_optimizer
from pipeline.learning.profiling import StepProfiler
from pipeline.learning.pulse import (
    SAVING_SECONDS,
    START_SECONDS,
    Pulse,
    dumping_on_request,
    stacks_file,
    step_limit,
)
from pipeline.learning.saving import TrainingTensors
from pipeline.learning.signals import StopRequest, ignore_stopping
from pipeline.learning.step import (
    FIRST_SCALE,
    NonFinite,
    Scaler,
    Stepper,
    StepResult,
    Stopped,
)
from pipeline.learning.telemetry import Telemetry

COLLECTIVE_TIMEOUT = timedelta(hours=6)
"""Longer than any limit of pulse.py: a supervisor that listens judges what hangs."""


class Worker:
    """One rank of one attempt.

    Args:
        stop_at: epoch seconds at which training must have ended.
        reserve: seconds after `stop_at` that are kept for the last save and hand-out.
    """

    def __init__(self, job: Job, stop_at: float, reserve: float) -> None:
        self.job, self.params, self.stop_at = job, job.params, stop_at
        self.stop, self.pulse = StopRequest(), Pulse()
        self.pulse("loading", START_SECONDS)
        patience = {"timeout": COLLECTIVE_TIMEOUT} if self.pulse.heard else {}
        self.ranks = PartialState(cpu=job.training["device"] == "cpu", **patience)
        self.main = self.ranks.is_main_process
        self._half = job.training["compute_dtype"] == "float16"
        torch.set_num_threads(job.training["threads"])
        self.data = PackedData(job.data)
        self.journal = read_journal(job)
        adapted = build(job.base, self.params, job.training, str(self.ranks.device))
        parameters = list(adapted.masters.values())
        optimizer = make_optimizer(adapted.masters, self.params, self.ranks.device)
        add_noise(adapted.causal.base_model, self.params.neftune_alpha)
        self.tensors = TrainingTensors(adapted, optimizer)
        self.at = self._resume()
        self.stepper = Stepper(
            job,
            DocumentLoss(
                adapted.causal,
                job.training["loss_chunk_positions"],
                smoothing=self.params.label_smoothing,
                compiled=job.training.get("compile", False),
            ),
            self.data,
            parameters,
            optimizer,
            device=self.ranks.device,
            rank=self.ranks.process_index,
            ranks=self.ranks.num_processes,
            scaler=Scaler(self.at.loss_scale, self.at.good_steps, grows=self._half),
            poll=self._poll,
            backends=attention_backends(
                self.params, job.training, adapted.causal.config, self.ranks.device, self._log
            ),
        )
        self.saved_step = self.at.step
        self.saved_time = time.monotonic()
        self.stage, self.stage_seconds = -1, list[float]()
        self.clock = Clock(
            job.run,
            self.params,
            most_steps=job.most_steps,
            stop_at=stop_at,
            reserve=reserve,
            save_bytes=self.tensors.needed_bytes,
            log=self._log,
        )
        self.telemetry: Telemetry | None = None
        if self.main:
            elements = sum(p.numel() for p in parameters)
            self.telemetry = Telemetry(job, self.ranks.device, elements, self._log)
            self.telemetry.begin(self.at.step)
        steps = self.params.profile_steps if self.main else 0
        self.profiler = StepProfiler(steps, job.run / "profile", self.ranks.device, self._log)

    def _log(self, message: str) -> None:
        """One plain line, from the main process only."""
        if self.main:
            print(f"train: {message}", flush=True)

    def _resume(self) -> checkpoint.TrainState:
        """The newest whole checkpoint's state, its tensors loaded; else the start."""
        plan = f"{schedule.total_steps(self.journal)} steps in all, {len(self.data):,} sequences"
        if self.main:
            checkpoint.clear_torn(self.job.run)
        folder = checkpoint.newest_complete(self.job.run, self._log)
        if folder is None:
            self._log(f"run {self.job.run.name} starts from the base: {plan}")
            if self.main:
                self._log(planned_sentence(self.job, self.data, self.journal))
            return checkpoint.TrainState(0, 0, 0, 0.0, FIRST_SCALE if self._half else 1.0, 0)
        state = checkpoint.read_state(folder)
        self.tensors.read(folder, state.step)
        self._log(f"resumed from {folder} (step {state.step}): {plan}")
        return state

    def _poll(self) -> bool:
        """Before every micro-batch: a sign of life, and whether this rank was asked to end."""
        limit = step_limit(self.stage_seconds, self.params.hang_factor)
        self.pulse(f"step {self.at.step + 1}", limit)
        return self.stop()

    def run(self) -> int:
        """All remaining steps; returns the exit code."""
        try:
            while True:
                self._replan()
                if self.at.step >= schedule.total_steps(self.journal):
                    break
                self._one_step()
                if self._save_is_due():
                    self._save()
        except Stopped:
            self._save()
            reason = self.stop.reason or "a signal to another rank"
            self._log(f"stopped by {reason}; step {self.at.step} is saved")
            return EXIT_INTERRUPTED
        except NonFinite as error:
            self._log(f"{error} in step {self.at.step + 1}; nothing of it is kept")
            return EXIT_NON_FINITE
        finally:
            self.pulse("ending", SAVING_SECONDS)
            self.profiler.close()
        self._save()
        if self.telemetry is not None:
            self.telemetry.close(self.at.step)
        return EXIT_OK

    def _one_step(self) -> None:
        started = time.monotonic()
        rate = schedule.learning_rate(
            self.at.step,
            self.journal,
            peak=self.params.learning_rate,
            warmup=self.params.warmup_share,
            decay="none" if self.params.optimizer == "schedule-free" else self.params.decay,
        )
        self.stepper.optimizer.progress = schedule.progress(self.at.step + 1, self.journal)
        result = self.stepper.run(self.at.step, rate, self._stage_starts())
        seconds = time.monotonic() - started
        self.clock.took(seconds)
        self.stage_seconds = [*self.stage_seconds[-20:], seconds]
        self.at = checkpoint.TrainState(
            step=self.at.step + 1,
            tokens=self.at.tokens + result.tokens,
            trained_tokens=self.at.trained_tokens + result.trained_tokens,
            seconds=self.at.seconds + seconds,
            loss_scale=self.stepper.scaler.scale,
            good_steps=self.stepper.scaler.good_steps,
        )
        if self.params.profile_steps:
            self.pulse("profiling", SAVING_SECONDS)
        self.profiler.step_done()
        self._tell(result, rate, seconds)

    def _tell(self, result: StepResult, rate: float, seconds: float) -> None:
        """The step's row and the progress line, from the main process."""
        if self.telemetry is None:
            return
        self.telemetry.add(self.at, result, rate, seconds, self.clock.left())
        total = schedule.total_steps(self.journal)
        self.telemetry.show(result, self.at.step, total, self.clock.step_seconds, self.stop_at)

    def _stage_starts(self) -> list[int]:
        """First step of every stage; says when another stage begins."""
        stages = self.job.stages
        starts = schedule.stage_starts(self.journal, [stage.share for stage in stages])
        stage = self.stepper.curriculum.stage_of(self.at.step, starts)
        if stage != self.stage and len(stages) > 1:
            length = stages[stage].sequence_tokens
            self._log(f"stage {stage + 1} of {len(stages)}: sequences of {length:,} tokens")
        if stage != self.stage:
            # Other lengths may compile anew, so the first steps of a stage prove nothing.
            self.stage_seconds = []
        self.stage = stage
        return starts

    def _save_is_due(self) -> bool:
        every = self.params.checkpoint_every_steps
        by_steps = every is not None and self.at.step % every == 0
        waited = time.monotonic() - self.saved_time
        return by_steps or waited >= self.params.checkpoint_every_minutes * 60

    def _save(self) -> None:
        """Write a checkpoint of the last completed step, once."""
        self.saved_time = started = time.monotonic()
        self.pulse(f"saving step {self.at.step}", SAVING_SECONDS)
        if self.at.step > self.saved_step and self.main:
            checkpoint.write_checkpoint(
                self.job.run, self.at, self.tensors.write, self.tensors.needed_bytes
            )
            self.clock.saved(time.monotonic() - started)
        self.saved_step = self.at.step

    def _replan(self) -> None:
        """Let the clock change the number of steps; the main process decides for all."""
        known = schedule.total_steps(self.journal)
        decision = self.clock.decide(self.at.step, self.journal) if self.main else (known, 0)
        total, kept = self._agreed(decision)
        if total == known and kept == len(self.journal):
            return
        why = "budget" if total < known else "time left"
        self.journal = [*self.journal[:kept], schedule.Replan(self.at.step, total, why)]
        self._log(f"re-planned at step {self.at.step}: {known} -> {total} steps ({why})")
        if self.main:
            write_journal(self.job, self.journal)

    def _agreed(self, decision: tuple[int, int]) -> tuple[int, int]:
        """The main process's decision, on every rank."""
        if self.ranks.num_processes == 1:
            return decision
        box = torch.tensor(decision, device=self.ranks.device)
        torch.distributed.broadcast(box, src=0)
        total, kept = box.tolist()
        return total, kept


def main() -> int:
    """Command line of the worker."""
    parser = argparse.ArgumentParser(description="one rank of a training run")
    parser.add_argument("run", type=Path)
    parser.add_argument("--stop-at", type=float, required=True, help="epoch seconds")
    parser.add_argument(
        "--reserve", type=float, default=0.0, help="seconds kept after that for the last save"
    )
    given = parser.parse_args()
    rank = int(os.environ.get("RANK", "0"))
    try:
        job = read_job(given.run)
        keep_last_words(error_file(job.run, rank))
        with dumping_on_request(stacks_file(job.run, rank)):
            lock = hold(LOCK_FILE, "a trainer") if rank == 0 else None
            code = Worker(job, given.stop_at, given.reserve).run()
            ignore_stopping()
        if lock is not None:
            lock.close()
        return code
    except UserError as error:
        print(f"train: {error}", file=sys.stderr, flush=True)
        return EXIT_BAD_INPUT


if __name__ == "__main__":
    raise SystemExit(main())
