"""Starts the workers, watches over them, hands out their checkpoints. No torch.

One worker a device, each a direct child: a launcher in between would swallow exit
codes, hide a dead supervisor from the workers, and kill a rank that is still
saving after its own short patience. The supervisor ends its own children by their
ids and nothing else; on a signal it passes it on and waits for the saved state.
"""

from __future__ import annotations

import signal
import subprocess
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
from pipeline.learning.checkpoint import all_checkpoints, as_rows, step_of
from pipeline.learning.clock import HAND_OUT, note_timing
from pipeline.learning.job import LOCK_FILE, Job, read_journal
from pipeline.learning.launch import command, rank_environments, start_rank
from pipeline.learning.pulse import DUMP_SIGNAL, SAVING_SECONDS, Listener, stacks_file
from pipeline.learning.schedule import total_steps
from pipeline.learning.signals import handle_stopping

POLL_SECONDS = 0.2
DUMP_SECONDS = 2.0
"""For hung ranks to write down where they are, before they are ended."""
FRUITLESS_HANGS = 3
"""Hangs with no new checkpoint between them, after which the run is given up."""
PACKAGES = ("torch", "transformers", "peft", "accelerate")

CRASH_SECONDS = 60.0
ORDERLY = {None, 0, EXIT_BAD_INPUT, EXIT_NON_FINITE, EXIT_INTERRUPTED}
"""Exit codes of ranks that ended as they should; None is still at work."""

OnCheckpoint = Callable[[Path], None]


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
    """A run seen from outside: one attempt, and another one after each hang.

    Args:
        on_checkpoint: called once for every new complete checkpoint, newest only.
        beat: called several times a second.
        on_resume: called before the ranks are started again after a hang.
    """

    def __init__(
        self,
        job: Job,
        on_checkpoint: OnCheckpoint,
        beat: Callable[[], None],
        on_resume: Callable[[], None] = lambda: None,
    ) -> None:
        self.job, self.on_checkpoint = job, on_checkpoint
        self.beat, self.on_resume = beat, on_resume
        self.seen: Path | None = None
        self.asked = 0
        self.asked_at = 0.0
        self.ranks: list[subprocess.Popen[bytes]] = []
        self.listeners: list[Listener] = []
        self.hung = False
        self.hangs: list[int] = []
        """Newest saved step at each hang."""

    def run(self, stop_at: float, reserve: float = 0.0) -> None:
        """Train to the end.

        Args:
            stop_at: epoch seconds at which training must have ended.
            reserve: seconds after that which are kept for the last save and hand-out.

        Raises:
            UserError: another trainer lives, the numbers are not finite, or the run hung
                again and again.
            Interrupted: a signal came and the state is saved.
            RuntimeError: a worker failed otherwise; its own message stands above.
        """
        refuse_second()
        previous = handle_stopping(self._pass_on)
        try:
            self._attempt(command(self.job, stop_at, reserve))
            while self.hung and not self.asked and not is_finished(self.job):
                self._refuse_a_fruitless_one()
                self.on_resume()
                self._attempt(command(self.job, stop_at, reserve))
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        if self.asked or not self.hung:
            self._judge([rank.returncode for rank in self.ranks])

    def _attempt(self, arguments: list[str]) -> None:
        """Start the ranks and stay until all have ended; says in `hung` if they were made to."""
        self.ranks, self.listeners = [], []
        self.hung, self.asked_at = False, 0.0
        try:
            for variables in rank_environments(int(self.job.training["ranks"])):
                rank, listener = start_rank(arguments, variables)
                self.ranks.append(rank)
                self.listeners.append(listener)
            self._watch()
        finally:
            self._end_all()
            for listener in self.listeners:
                listener.close()

    def _watch(self) -> None:
        """Until all ranks have ended; one that fails brings the others to an end."""
        looked = time.monotonic()
        while any(rank.poll() is None for rank in self.ranks):
            time.sleep(POLL_SECONDS)
            self.beat()
            self._hand_out()
            now = time.monotonic()
            if self._is_hung(now - looked):
                self._end_hung()
            elif self.asked or any(rank.poll() for rank in self.ranks):
                self._ask_all()
            looked = now
        self._hand_out()

    def _is_hung(self, elapsed: float) -> bool:
        """Whether all living ranks are overdue: those that wait for a slow one are no proof."""
        for listener in self.listeners:
            listener.look(elapsed)
        living = [
            listener
            for rank, listener in zip(self.ranks, self.listeners, strict=True)
            if rank.poll() is None
        ]
        return bool(living) and all(listener.overdue for listener in living)

    def _end_hung(self) -> None:
        """Say where each rank stands, then end them: what hangs in C code hears no request."""
        for number, (rank, listener) in enumerate(zip(self.ranks, self.listeners, strict=True)):
            if rank.poll() is None:
                print(
                    f"train: rank {number} made no progress for {listener.silent:.0f} s "
                    f"in {listener.doing} (limit {listener.limit:.0f} s)",
                    flush=True,
                )
        self._signal_all(DUMP_SIGNAL)
        time.sleep(DUMP_SECONDS)
        self._signal_all(signal.SIGKILL)
        for number, rank in enumerate(self.ranks):
            rank.wait()
            stacks = stacks_file(self.job.run, number)
            if stacks.is_file():
                print(f"train: stacks of rank {number}:\n{stacks.read_text('utf-8')}", flush=True)
        self.hung = True
        self.hangs.append(newest_step(self.job))
        doing = [listener.doing for listener in self.listeners]
        with (self.job.run / "hangs.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(dump_json({"saved_step": self.hangs[-1], "doing": doing}) + "\n")

    def _refuse_a_fruitless_one(self) -> None:
        """Go on after a hang unless the last ones came without a new checkpoint."""
        last = self.hangs[-FRUITLESS_HANGS:]
        if len(last) == FRUITLESS_HANGS and len(set(last)) == 1:
            raise UserError(
                f"{self.job.run}: hung {FRUITLESS_HANGS} times in a row after step {last[0]}",
                "The stacks above say where. If steps are only slow, raise train.hang_factor; "
                "running again goes on from that step.",
            )
        print(f"train: ended the hung ranks; going on from step {last[-1]}", flush=True)

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
            self.seen, started = complete[-1], time.monotonic()
            self.on_checkpoint(self.seen)
            note_timing(self.job.run, HAND_OUT, time.monotonic() - started)

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


def newest_step(job: Job) -> int:
    """Step of the newest complete checkpoint; 0 without one."""
    return max((step_of(f) for f in all_checkpoints(job.run) if is_complete(f)), default=0)


def is_finished(job: Job) -> bool:
    """Whether the run's last checkpoint is its last planned step."""
    return newest_step(job) == total_steps(read_journal(job))
