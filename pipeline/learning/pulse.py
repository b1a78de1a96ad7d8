"""Signs of life from a rank to its supervisor, so that a hung step is seen. No torch.

Each rank writes into a pipe what it is about to do and how long that may take
(`Pulse`, used by worker.py); the supervisor reads the other ends (`Listener`, used by
supervisor.py). There is no thread in the rank: one that is stuck in C code, with or
without the interpreter's lock, falls silent, and that is the whole signal. A rank
that nobody listens to (started by torchrun, say) says nothing.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PULSE_VARIABLE = "TRACEBOX_PULSE_FD"
"""Environment variable with the number of the pipe that the rank writes to."""
DUMP_SIGNAL = signal.SIGUSR1
"""Makes a rank write the Python stacks of all its threads to a file of its own."""

START_SECONDS = 1800.0
"""Limit for loading the base, and for each of the first steps, which may compile."""
SAVING_SECONDS = 900.0
"""Limit for writing a checkpoint; also the patience with a rank that was asked to end."""
SHORTEST_SECONDS = 120.0
"""No step counts as hung before this, however short the steps are."""
FIRST_STEPS = 3
"""Steps of an attempt, and of a stage, that have the limit of the start."""
EVERY_SECONDS = 0.5
"""The same sign is sent again no more often than this."""
LONGEST_LOOK = 5.0
"""At most so much silence is counted from one look to the next: a supervisor that was
busy, or a machine that slept, has not watched the time between."""


def step_limit(step_seconds: Sequence[float], factor: float) -> float:
    """Seconds without progress after which a step counts as hung.

    Args:
        step_seconds: of the last steps of this stage, oldest first.
        factor: `train.hang_factor`.
    """
    if len(step_seconds) < FIRST_STEPS:
        return START_SECONDS
    return max(SHORTEST_SECONDS, factor * statistics.median(step_seconds))


def stacks_file(run: Path, rank: int) -> Path:
    """Where a rank writes the stacks of its threads when it is asked to."""
    return run / f"stacks-{rank}.txt"


@contextlib.contextmanager
def dumping_on_request(path: Path) -> Iterator[None]:
    """Let `DUMP_SIGNAL` write the stacks of all threads to `path`, even while C code runs."""
    with path.open("w", encoding="utf-8") as stream:
        faulthandler.register(DUMP_SIGNAL, file=stream, all_threads=True)
        try:
            yield
        finally:
            faulthandler.unregister(DUMP_SIGNAL)


class Pulse:
    """The rank's side: says what it does and how long that may take."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        given = os.environ.get(PULSE_VARIABLE)
        self._pipe = int(given) if given else None
        self._now = now
        self._sent, self._said = -EVERY_SECONDS, (0.0, "")

    @property
    def heard(self) -> bool:
        """Whether a supervisor listens."""
        return self._pipe is not None

    def __call__(self, doing: str, limit: float) -> None:
        """Say that `doing` begins, which is to end or say more within `limit` seconds."""
        now = self._now()
        said = limit, doing
        if self._pipe is None or (said == self._said and now - self._sent < EVERY_SECONDS):
            return
        self._sent, self._said = now, said
        # A full pipe has more than enough to read, and a closed one has no reader.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._pipe, f"{limit:.1f} {doing}\n".encode())


class Listener:
    """The supervisor's side of one rank's pipe."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self.writer, False)
        self._rest = b""
        self.doing, self.limit = "starting", START_SECONDS
        self.silent = 0.0
        """Watched seconds since the last sign."""

    def started(self) -> None:
        """The rank has its own copy of the writing end; let go of this one."""
        os.close(self.writer)

    def close(self) -> None:
        """Let go of the reading end."""
        os.close(self._reader)

    def look(self, elapsed: float) -> None:
        """Read what came in; `elapsed` seconds have passed since the last look."""
        try:
            received = os.read(self._reader, 1 << 20)
        except BlockingIOError:
            received = b""
        if not received:
            self.silent += min(elapsed, LONGEST_LOOK)
            return
        self.silent = 0.0
        *lines, self._rest = (self._rest + received).split(b"\n")
        if lines:
            limit, _, doing = lines[-1].decode().partition(" ")
            self.limit, self.doing = float(limit), doing

    @property
    def overdue(self) -> bool:
        """Whether the rank has been silent for longer than it said."""
        return self.silent > self.limit
