"""Starts the workers, watches over them, hands out their checkpoints. No torch.

One worker a device, each a direct child: a launcher in between would swallow exit
codes, hide a dead supervisor from the workers, and kill a rank that is still
saving after its own short patience. The supervisor ends its own children by their
ids and nothing else; on a signal it passes it on and waits for the saved state.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

from pipeline.base.artifacts import canonical_hash, dump_json, is_complete, sha256_file
from pipeline.base.errors import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NON_FINITE,
    Interrupted,
    UserError,
)
from pipeline.base.lock import held_by_another, is_held
from pipeline.learning.checkpoint import all_checkpoints, as_rows
from pipeline.learning.job import LOCK_FILE, Job, read_journal
from pipeline.learning.schedule import total_steps
from pipeline.learning.signals import handle_stopping

WORKER = "pipeline.learning.worker"
POLL_SECONDS = 0.2
SAVING_SECONDS = 900.0
"""Patience with a rank that was asked to end: a checkpoint of a large base takes minutes."""
PACKAGES = ("torch", "transformers", "peft", "accelerate")

CRASH_SECONDS = 60.0
ORDERLY = {None, 0, EXIT_BAD_INPUT, EXIT_NON_FINITE, EXIT_INTERRUPTED}
"""Exit codes of ranks that ended as they should; None is still at work."""

OnCheckpoint = Callable[[Path], None]


def command(job: Job, stop_at: float) -> list[str]:
    """The command line of every rank; they differ in their environment alone."""
    return [sys.executable, "-m", WORKER, str(job.run), "--stop-at", f"{stop_at:.1f}"]


def rank_environments(ranks: int) -> list[dict[str, str]]:
    """Variables by which the ranks of one machine find each other (torchrun's names)."""
    if ranks == 1:
        return [{}]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def versions() -> dict[str, str]:
    """Installed versions of what decides the numbers."""
    return {name: metadata.version(name) for name in PACKAGES}


def code_hash() -> str:
    """Hash of the training code, to be recorded with every attempt."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return canonical_hash([[f.name, sha256_file(f)] for f in files])[:16]


def attempts_so_far(job: Job) -> int:
    """How often a worker was started for this run."""
    return len(as_rows(job.run / "attempts.jsonl"))


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
        self.asked_at = 0.0
        self.ranks: list[subprocess.Popen[bytes]] = []

    def run(self, stop_at: float) -> None:
        """Train to the end.

        Raises:
            UserError: another trainer lives, or the numbers are not finite.
            Interrupted: a signal came and the state is saved.
            RuntimeError: a worker failed otherwise; its own message stands above.
        """
        refuse_second()
        previous = handle_stopping(self._pass_on)
        try:
            for variables in rank_environments(int(self.job.training["ranks"])):
                environment = {**os.environ, **variables}
                self.ranks.append(subprocess.Popen(command(self.job, stop_at), env=environment))
            self._watch()
        finally:
            self._end_all()
            for number, handler in previous.items():
                signal.signal(number, handler)
        self._judge([rank.returncode for rank in self.ranks])

    def _watch(self) -> None:
        """Until all ranks have ended; one that fails brings the others to an end."""
        while any(rank.poll() is None for rank in self.ranks):
            time.sleep(POLL_SECONDS)
            self.beat()
            self._hand_out()
            if self.asked or any(rank.poll() for rank in self.ranks):
                self._ask_all()
        self._hand_out()

    def _ask_all(self) -> None:
        """Ask every rank to end, once; kill those that do not in time."""
        now = time.monotonic()
        if not self.asked_at:
            self.asked_at = now
            self._signal_all(signal.SIGTERM)
        elif now - self.asked_at > self._patience():
            self._signal_all(signal.SIGKILL)

    def _patience(self) -> float:
        """A rank that crashed leaves the others waiting for it, with nothing to save."""
        codes = {rank.returncode for rank in self.ranks}
        return SAVING_SECONDS if codes <= ORDERLY else CRASH_SECONDS

    def _signal_all(self, number: int) -> None:
        for rank in self.ranks:
            if rank.poll() is None:
                rank.send_signal(number)

    def _end_all(self) -> None:
        """Leave no rank behind, whatever went wrong here."""
        while any(rank.poll() is None for rank in self.ranks):
            self._ask_all()
            time.sleep(POLL_SECONDS)

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        self.asked = number

    def _hand_out(self) -> None:
        complete = [f for f in all_checkpoints(self.job.run) if is_complete(f)]
        if complete and complete[-1] != self.seen:
            self.seen = complete[-1]
            self.on_checkpoint(self.seen)

    def _judge(self, codes: list[int]) -> None:
        if self.asked or EXIT_INTERRUPTED in codes:
            raise Interrupted("stopped by a signal; run again to go on from the last checkpoint")
        if EXIT_NON_FINITE in codes:
            raise UserError(
                "the loss or a gradient became infinite or not a number",
                "Lower train.learning_rate or set train.precision to bfloat16 or float32.",
            )
        if EXIT_BAD_INPUT in codes:
            raise UserError("training could not start", "The line above says what to mend.")
        if any(codes):
            raise RuntimeError(f"the training processes ended with {codes}")


def refuse_second() -> None:
    """Refuse to start beside a trainer that lives."""
    if is_held(LOCK_FILE):
        raise held_by_another(LOCK_FILE, "a trainer")


def is_finished(job: Job) -> bool:
    """Whether the run's last checkpoint is its last planned step."""
    complete = [f for f in all_checkpoints(job.run) if is_complete(f)]
    return bool(complete) and complete[-1].name.endswith(f"-{total_steps(read_journal(job)):06d}")
