"""Starts the worker, watches over it, hands out its checkpoints. No torch.

One device: the worker is the direct child. Several: torch's elastic launcher
starts one worker a device. The supervisor ends its own child by its id and
nothing else; on a signal it passes it on and waits for the state to be saved.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

from pipeline.base.artifacts import canonical_hash, dump_json, is_complete, sha256_file
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, Interrupted, UserError
from pipeline.learning.checkpoint import all_checkpoints, as_rows
from pipeline.learning.job import LOCK_FILE, Job, read_journal
from pipeline.learning.lock import holder, is_held
from pipeline.learning.schedule import total_steps

WORKER = "pipeline.learning.worker"
EXIT_NON_FINITE = 3
POLL_SECONDS = 0.2
PACKAGES = ("torch", "transformers", "peft", "accelerate")

OnCheckpoint = Callable[[Path], None]


def command(job: Job, stop_at: float) -> list[str]:
    """The command line that starts all ranks of an attempt."""
    worker = [WORKER, str(job.run), "--stop-at", f"{stop_at:.1f}"]
    ranks = int(job.training["ranks"])
    if ranks == 1:
        return [sys.executable, "-m", *worker]
    launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m"]
    return [sys.executable, "-m", *launcher, *worker]


def versions() -> dict[str, str]:
    """Installed versions of what decides the numbers."""
    return {name: metadata.version(name) for name in PACKAGES}


def code_hash() -> str:
    """Hash of the training code, to be recorded with every attempt."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return canonical_hash([[f.name, sha256_file(f)] for f in files])[:16]


def record_attempt(job: Job, devices: list[str]) -> int:
    """Append to attempts.jsonl; returns the number of this attempt, from 1.

    Speed settings and code may differ between attempts: a change is said, not
    punished, and stays on record.
    """
    path = job.run / "attempts.jsonl"
    earlier = as_rows(path)
    attempt: dict[str, Any] = {
        "attempt": len(earlier) + 1,
        "devices": devices,
        "training": job.training,
        "code": code_hash(),
        "versions": versions(),
    }
    for what in ("training", "code", "versions"):
        if earlier and earlier[-1][what] != attempt[what]:
            print(f"train: {what} changed since attempt {len(earlier)} of this run", flush=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(dump_json(attempt) + "\n")
    return len(earlier) + 1


class Supervisor:
    """One attempt, seen from outside.

    Args:
        on_checkpoint: called once for every new complete checkpoint, newest only.
        beat: called several times a second.
    """

    def __init__(self, job: Job, on_checkpoint: OnCheckpoint, beat: Callable[[], None]) -> None:
        self.job, self.on_checkpoint, self.beat = job, on_checkpoint, beat
        self.seen: Path | None = None
        self.asked = 0

    def run(self, stop_at: float) -> None:
        """Train to the end.

        Raises:
            UserError: another trainer lives, or the numbers are not finite.
            Interrupted: a signal came and the state is saved.
            RuntimeError: the worker failed otherwise; its own message stands above.
        """
        if is_held(LOCK_FILE):
            pid = holder(LOCK_FILE)
            raise UserError(
                f"{LOCK_FILE}: a trainer is already running (pid {pid})",
                f"Wait for it, or end it with `kill {pid}`; it saves its state first.",
            )
        previous = {n: signal.signal(n, self._pass_on) for n in (signal.SIGTERM, signal.SIGINT)}
        self.child = subprocess.Popen(command(self.job, stop_at))
        try:
            while self.child.poll() is None:
                time.sleep(POLL_SECONDS)
                self.beat()
                self._hand_out()
            self._hand_out()
        finally:
            if self.child.poll() is None:
                self.child.terminate()
                self.child.wait()
            for number, handler in previous.items():
                signal.signal(number, handler)
        self._judge(self.child.returncode)

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        self.asked = number
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)

    def _hand_out(self) -> None:
        complete = [f for f in all_checkpoints(self.job.run) if is_complete(f)]
        if complete and complete[-1] != self.seen:
            self.seen = complete[-1]
            self.on_checkpoint(self.seen)

    def _judge(self, code: int) -> None:
        if self.asked or code == EXIT_INTERRUPTED:
            raise Interrupted("stopped by a signal; run again to go on from the last checkpoint")
        if code == EXIT_NON_FINITE:
            raise UserError(
                "the loss or a gradient became infinite or not a number",
                "Lower train.learning_rate or set train.precision to bfloat16 or float32.",
            )
        if code == EXIT_BAD_INPUT:
            raise UserError("training could not start", "The line above says what to mend.")
        if code != 0:
            raise RuntimeError(f"the training process ended with code {code}")


def is_finished(job: Job) -> bool:
    """Whether the run's last checkpoint is its last planned step."""
    complete = [f for f in all_checkpoints(job.run) if is_complete(f)]
    return bool(complete) and complete[-1].name.endswith(f"-{total_steps(read_journal(job)):06d}")
