"""The training process: loads the base, runs steps, saves checkpoints.

Started by the supervisor (`python -m pipeline.train`), one process a device:
`python -m pipeline.learning.worker runs/<key> --stop-at UNIX`. Reads job.json and
work/tokenize; writes checkpoints, journal.jsonl and steps.jsonl in the run's
folder. Exit codes: 0 finished, 2 bad input, 3 not finite, 130 stopped by a
signal with its state saved.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import time
from pathlib import Path

import torch
from accelerate import PartialState

from pipeline.base.artifacts import dump_json, write_jsonl
from pipeline.base.errors import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NON_FINITE,
    EXIT_OK,
    UserError,
)
from pipeline.base.lock import hold
from pipeline.base.progress import Progress, duration
from pipeline.learning import checkpoint, schedule
from pipeline.learning.accounting import planned_sentence
from pipeline.learning.data import PackedData
from pipeline.learning.job import LOCK_FILE, Job, read_job, read_journal, write_journal
from pipeline.learning.loss import DocumentLoss
from pipeline.learning.model import build
from pipeline.learning.saving import TrainingTensors
from pipeline.learning.signals import StopRequest, ignore_stopping
from pipeline.learning.step import (
    FIRST_SCALE,
    NonFinite,
    Scaler,
    Stepper,
    StepResult,
    Stopped,
    make_optimizer,
)

MEASURED_STEPS = 3
"""Steps that are timed before the clock may change the plan."""
REPLAN_EVERY_SECONDS = 30.0


class Worker:
    """One rank of one attempt.

    Args:
        stop_at: epoch seconds at which training must have ended.
    """

    def __init__(self, job: Job, stop_at: float) -> None:
        self.job, self.params, self.stop_at = job, job.params, stop_at
        self.stop = StopRequest()
        self.ranks = PartialState(cpu=job.training["device"] == "cpu")
        self.main = self.ranks.is_main_process
        self._half = job.training["compute_dtype"] == "float16"
        torch.set_num_threads(job.training["threads"])
        self.data = PackedData(job.data)
        self.journal = read_journal(job)
        model = build(job.base, self.params, job.training, str(self.ranks.device))
        parameters = [p for p in model.parameters() if p.requires_grad]
        optimizer = make_optimizer(parameters, job, self.ranks.device)
        self.tensors = TrainingTensors(model, optimizer, job.base, self.params)
        self.at = self._resume()
        self.stepper = Stepper(
            job,
            DocumentLoss(model, job.training["loss_chunk_positions"]),
            self.data,
            parameters,
            optimizer,
            device=self.ranks.device,
            rank=self.ranks.process_index,
            ranks=self.ranks.num_processes,
            scaler=Scaler(self.at.loss_scale, self.at.good_steps, grows=self._half),
            poll=self.stop,
        )
        self.saved_step = self.at.step
        self.saved_time = self.replanned = time.monotonic()
        self.step_seconds: list[float] = []
        self.stage = -1

    def _log(self, message: str) -> None:
        """One plain line, from the main process only."""
        if self.main:
            print(f"train: {message}", flush=True)

    def _resume(self) -> checkpoint.TrainState:
        """The newest whole checkpoint's state, its tensors loaded; else the start."""
        plan = f"{schedule.total_steps(self.journal)} steps in all, {len(self.data):,} sequences"
        folder = checkpoint.newest_complete(self.job.run, self._log)
        if folder is None:
            self._log(f"run {self.job.run.name} starts from the base: {plan}")
            if self.main:
                self._log(planned_sentence(self.job, self.data, self.journal))
            self._keep_rows(0)
            return checkpoint.TrainState(0, 0, 0, 0.0, FIRST_SCALE if self._half else 1.0, 0)
        state = checkpoint.read_state(folder)
        self.tensors.read(folder, state.step)
        self._log(f"resumed from {folder} (step {state.step}): {plan}")
        self._keep_rows(state.step)
        return state

    def _keep_rows(self, step: int) -> None:
        """Forget what a killed attempt left: torn saves, figures of steps to be made again."""
        if self.main:
            checkpoint.clear_torn(self.job.run)
            rows = checkpoint.as_rows(self.job.steps_file)
            write_jsonl(self.job.steps_file, (row for row in rows if row["step"] <= step))

    def run(self) -> int:
        """All remaining steps; returns the exit code."""
        progress = Progress("train", "tokens", None)
        try:
            while True:
                self._replan()
                if self.at.step >= schedule.total_steps(self.journal):
                    break
                result = self._one_step()
                if self.main:
                    progress.add(result.tokens, self._note(result))
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
        self._save()
        if self.main:
            progress.close(f"step {self.at.step}")
        return EXIT_OK

    def _one_step(self) -> StepResult:
        started = time.monotonic()
        rate = schedule.learning_rate(
            self.at.step,
            self.journal,
            peak=self.params.learning_rate,
            warmup=self.params.warmup_share,
            decay=self.params.decay,
        )
        result = self.stepper.run(self.at.step, rate, self._stage_starts())
        seconds = time.monotonic() - started
        self.step_seconds = [*self.step_seconds[-20:], seconds]
        self.at = checkpoint.TrainState(
            step=self.at.step + 1,
            tokens=self.at.tokens + result.tokens,
            trained_tokens=self.at.trained_tokens + result.trained_tokens,
            seconds=self.at.seconds + seconds,
            loss_scale=self.stepper.scaler.scale,
            good_steps=self.stepper.scaler.good_steps,
        )
        self._write_row(result, rate)
        return result

    def _stage_starts(self) -> list[int]:
        """First step of every stage; says when another stage begins."""
        stages = self.job.stages
        starts = schedule.stage_starts(self.journal, [stage.share for stage in stages])
        stage = self.stepper.curriculum.stage_of(self.at.step, starts)
        if stage != self.stage and len(stages) > 1:
            length = stages[stage].sequence_tokens
            self._log(f"stage {stage + 1} of {len(stages)}: sequences of {length:,} tokens")
        self.stage = stage
        return starts

    def _write_row(self, result: StepResult, rate: float) -> None:
        row = {
            "step": self.at.step,
            "loss": result.loss,
            "token_accuracy": result.token_accuracy,
            "learning_rate": rate,
            "grad_norm": result.grad_norm,
            "tokens": self.at.tokens,
            "seconds": round(self.at.seconds, 3),
            "memory_gib": round(peak_memory_gib(self.ranks.device), 3),
            "budget_left_seconds": round(self.stop_at - time.time(), 1),
        }
        if self.main:
            with self.job.steps_file.open("a", encoding="utf-8") as stream:
                stream.write(dump_json(row) + "\n")

    def _note(self, result: StepResult) -> str:
        total = schedule.total_steps(self.journal)
        left = (total - self.at.step) * statistics.median(self.step_seconds)
        return (
            f"step {self.at.step}/{total} · loss {result.loss:.4f} · ETA {duration(left)}"
            f" · budget left {duration(self.stop_at - time.time())}"
        )

    def _save_is_due(self) -> bool:
        every = self.params.checkpoint_every_steps
        by_steps = every is not None and self.at.step % every == 0
        waited = time.monotonic() - self.saved_time
        return by_steps or waited >= self.params.checkpoint_every_minutes * 60

    def _save(self) -> None:
        """Write a checkpoint of the last completed step, once."""
        self.saved_time = time.monotonic()
        if self.at.step > self.saved_step and self.main:
            checkpoint.write_checkpoint(
                self.job.run, self.at, self.tensors.write, self.tensors.needed_bytes
            )
        self.saved_step = self.at.step

    def _replan(self) -> None:
        """Let the clock change the number of steps; the main process decides for all."""
        known = schedule.total_steps(self.journal)
        total, kept = self._agreed(self._by_clock(known) if self.main else (known, 0))
        if total == known and kept == len(self.journal):
            return
        why = "budget" if total < known else "time left"
        self.journal = [*self.journal[:kept], schedule.Replan(self.at.step, total, why)]
        self._log(f"re-planned at step {self.at.step}: {known} -> {total} steps ({why})")
        if self.main:
            write_journal(self.job, self.journal)

    def _by_clock(self, known: int) -> tuple[int, int]:
        """Steps of the run that the clock allows, and journal entries that stay."""
        median = statistics.median(self.step_seconds or [0.0])
        late = time.time() + 2 * median > self.stop_at
        kept = len(self.journal)
        if self.at.step >= known:
            return known, kept
        if self.at.step < self.journal[-1].step:
            # A resumed run replays its journal, unless the clock has overtaken it.
            if not late:
                return known, kept
            kept = sum(entry.step <= self.at.step for entry in self.journal)
        if not (late or self._measurement_is_due()):
            return known, kept
        self.replanned = time.monotonic()
        total = schedule.replanned_total(
            step=self.at.step,
            total=known,
            seconds_a_step=median,
            seconds_left=self.stop_at - time.time(),
            most_steps=known if self.params.steps else self.job.most_steps,
        )
        return total, kept

    def _measurement_is_due(self) -> bool:
        """Whether enough steps were timed, and the last look is long enough ago."""
        waited = time.monotonic() - self.replanned >= REPLAN_EVERY_SECONDS
        steps = len(self.step_seconds)
        return steps == MEASURED_STEPS or (waited and steps > MEASURED_STEPS)

    def _agreed(self, decision: tuple[int, int]) -> tuple[int, int]:
        """The main process's decision, on every rank."""
        if self.ranks.num_processes == 1:
            return decision
        box = torch.tensor(decision, device=self.ranks.device)
        torch.distributed.broadcast(box, src=0)
        total, kept = box.tolist()
        return total, kept


def peak_memory_gib(device: torch.device) -> float:
    """Most memory held so far: the allocator's on a GPU, the process's on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> int:
    """Command line of the worker."""
    parser = argparse.ArgumentParser(description="one rank of a training run")
    parser.add_argument("run", type=Path)
    parser.add_argument("--stop-at", type=float, required=True, help="epoch seconds")
    arguments = parser.parse_args()
    try:
        lock = hold(LOCK_FILE, "a trainer") if os.environ.get("RANK", "0") == "0" else None
        code = Worker(read_job(arguments.run), arguments.stop_at).run()
        ignore_stopping()
        if lock is not None:
            lock.close()
        return code
    except UserError as error:
        print(f"train: {error}", file=sys.stderr, flush=True)
        return EXIT_BAD_INPUT


if __name__ == "__main__":
    raise SystemExit(main())
