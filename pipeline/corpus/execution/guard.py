"""The watching side: runs one shard in a process of its own and survives what it does.

A row that works too long gets its process ended and is poison at the next run of the
shard; so is a row at which the process died twice, or ran out of memory. Called by
executor.py and ray_backend.py, which differ only in where the guards run.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline.base.errors import UserError
from pipeline.base.params_corpus import ExecutorParams
from pipeline.corpus.execution.scratch import digest, draft, publish
from pipeline.corpus.execution.spawner import Worker, running_spawner
from pipeline.corpus.execution.watch import DONE, NO_ROW, PHASE, ROW, STAMP, Task
from pipeline.corpus.execution.worker import Order, Reply

LOOK_SECONDS = 0.1
WAITING_FACTOR = 10
"""A row may wait (for a disk, say) so many times longer than it may compute."""
CRASHES = 2
"""Deaths at one row that make it poison."""
MAX_DEATHS = 8
"""Deaths that no poison row explains; a shard with more is given up."""
MAX_POISON = 200


class WorkerError(Exception):
    """A bug in a task.

    Args:
        trace: the traceback in the worker.
    """

    def __init__(self, trace: str) -> None:
        super().__init__(f"\n{trace}")
        self.trace = trace


class Stopped(Exception):
    """Another shard failed or a signal came; this one was left unfinished."""


@dataclass(frozen=True, slots=True)
class Work:
    """A shard that is still to be done."""

    number: int
    shard: Any
    target: Path


@dataclass(frozen=True, slots=True)
class _End:
    """How a run of a task ended."""

    kind: Literal["replied", "timeout", "crash", "memory"]
    row: int
    """Row at work, or NO_ROW."""
    reply: Reply
    exit_code: int = 0


class Guard:
    """Runs one shard at a time in a worker, which is replaced when it dies.

    Args:
        name: what is being done, for messages.
        stop: when set, the shard at work is left unfinished.
    """

    def __init__(
        self, name: str, task: Task, settings: ExecutorParams, stop: threading.Event
    ) -> None:
        self._name, self._settings, self._stop = name, settings, stop
        self._module, self._function = task_name(task)
        self._worker: Worker | None = None

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._dismiss(kill=kind is not None)

    @property
    def rows(self) -> int:
        """Rows done of the shard at work."""
        worker = self._worker
        return worker.slots[DONE] if worker else 0

    def run(self, job: Any, shard: Any, target: Path) -> int:
        """Run the task on a shard until it is done; return its number of rows.

        Raises:
            UserError: from the task; or the shard cannot be worked on at all.
            WorkerError: the task has a bug, or (as its cause) the system refused a file.
            Stopped: `stop` was set.
        """
        ill = _Illness(self._name, shard, self._settings)
        while True:
            with draft(target) as folder:
                end = self._attempt(job, shard, folder, ill.poison)
                if end.kind == "replied":
                    raise_fault(end.reply)
                    rows = self.rows
                    publish(folder, target, {"shard": digest(shard), "rows": rows})
                    if end.reply.retire:
                        self._dismiss(kill=False)
                    return rows
            ill.learn(end)

    def _attempt(self, job: Any, shard: Any, folder: Path, poison: dict[int, str]) -> _End:
        memory = int(self._settings.worker_gib * 2**30)
        names = (self._module, self._function)
        order = Order(*names, job, shard, str(folder.absolute()), poison, str(Path.cwd()), memory)
        found: Reply | Literal["timeout", "crash"]
        try:
            worker = self._worker = self._worker or Worker(running_spawner(self._module))
            worker.slots[ROW], worker.slots[DONE] = NO_ROW, 0
            worker.connection.send(order)
            found = self._look(worker)
        except (EOFError, ConnectionError):
            found = "crash"
        except Stopped:
            self._dismiss(kill=True)
            raise
        row = self._worker.slots[ROW] if self._worker else NO_ROW
        if isinstance(found, Reply) and found.kind != "memory":
            return _End("replied", row, found)
        exit_code = self._dismiss(kill=True)
        return _End("memory" if isinstance(found, Reply) else found, row, Reply("bug"), exit_code)

    def _look(self, worker: Worker) -> Reply | Literal["timeout"]:
        """Wait for the reply while the row at work is within its time.

        Raises:
            EOFError, ConnectionError: the worker has died.
        """
        limit = self._settings.row_seconds
        pause = min(LOOK_SECONDS, limit / 4)
        seen, waited, before = (NO_ROW, 0), 0.0, time.monotonic()
        while not worker.connection.poll(pause):
            if self._stop.is_set():
                raise Stopped
            now = time.monotonic()
            row, stamp = worker.slots[ROW], worker.slots[STAMP]  # row first: see Watch.enter
            # Time in which this process did not run itself, as in a suspended machine, is not
            # held against the row.
            waited = waited + min(now - before, 10 * pause) if seen == (row, stamp) else 0.0
            seen, before = (row, stamp), now
            computed = (worker.cpu_ns() - stamp) / 1e9
            if row != NO_ROW and (computed > limit or waited > WAITING_FACTOR * limit):
                return "timeout"
        reply: Reply = worker.connection.recv()
        return reply

    def _dismiss(self, kill: bool) -> int:
        worker, self._worker = self._worker, None
        return worker.end(kill) if worker else 0


class _Illness:
    """What is known of the rows at which a shard's workers ended."""

    def __init__(self, name: str, shard: Any, settings: ExecutorParams) -> None:
        self.poison: dict[int, str] = {}
        self._deaths: Counter[int] = Counter()
        self._name, self._shard, self._settings = name, shard, settings

    def learn(self, end: _End) -> None:
        """Decide what the next run leaves out.

        Raises:
            UserError: another run would not get further.
        """
        what = f"{self._name}: {place(self._shard, end.row)}"
        if end.row in self.poison:
            raise UserError(
                f"{what}: stops the worker ({end.kind}) even when the row is left out",
                "Take this row out of the file.",
            )
        if end.kind == "memory" and end.row == NO_ROW:
            raise UserError(
                f"{what}: needs more than {self._settings.worker_gib} GiB outside of any row",
                "Raise executor.worker_gib or lower executor.shard_mib.",
            )
        self._deaths[end.row] += end.kind == "crash"
        known = end.kind != "crash" or self._deaths[end.row] >= CRASHES
        if end.row != NO_ROW and known:
            self.poison[end.row] = end.kind
            self._deaths[end.row] = 0
        if self._deaths.total() > MAX_DEATHS:
            raise UserError(
                f"{what}: its worker died {MAX_DEATHS + 1} times, last with "
                f"{_exit_text(end.exit_code)}",
                "Free memory or lower executor.workers, and run again; finished shards are kept.",
            )
        if len(self.poison) > MAX_POISON:
            reasons = ", ".join(
                f"{n} {reason}" for reason, n in Counter(self.poison.values()).items()
            )
            raise UserError(
                f"{what}: more than {MAX_POISON} rows cannot be worked on ({reasons})",
                "Raise executor.row_seconds or executor.worker_gib, or leave this file out.",
            )


def _exit_text(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def raise_fault(reply: Reply) -> None:
    """Raise in this process what the task raised in its own."""
    if reply.kind == "user":
        raise UserError(*reply.texts)
    if reply.kind == "system":
        text, number, said, name = reply.texts
        raise OSError(number, said, name) from WorkerError(text)
    if reply.kind == "bug":
        raise WorkerError(*reply.texts)


def task_name(task: Task) -> tuple[str, str]:
    """Module and name by which a worker finds a task."""
    module = task.__module__
    spec = sys.modules[module].__spec__
    if spec is not None:
        module = spec.name  # not `__main__`, if that was started by `python -m`
    return module, task.__qualname__


def place(shard: Any, row: int) -> str:
    """Where a person finds a row: the file and the number, if the shard has these."""
    path, first = getattr(shard, "path", shard), getattr(shard, "first_row", 0)
    return f"{path}, row {first + row % PHASE}" if row != NO_ROW else f"{path}, from row {first}"
