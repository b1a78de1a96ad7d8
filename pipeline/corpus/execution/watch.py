"""What a task tells its watcher: the row at work, and the rows that are done.

Writes three numbers into memory that the watcher (guard.py) reads from outside, so that
a row that hangs or ends the process is known by its number. Called by every task.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NO_ROW = -1
ROW, STAMP, DONE = range(3)
"""Slots: number of the row at work, processor time (ns) when it began, rows done."""
SLOT_BYTES = 3 * 8

PHASE = 2**40
"""No shard has so many rows: a number beyond stands for a phase of work at the row that is
left when it is taken off."""
TOGETHER, ALONE = PHASE, 2 * PHASE
"""Phases before the work on a row itself: several rows from it on are taken at once; or it
is taken by itself out of a file that can only be read in order."""

POISON = {
    "timeout": "the row was at work for longer than executor.row_seconds",
    "memory": "the row needs more memory than executor.worker_gib",
    "crash": "the row ended the process that worked on it, twice",
}
"""What each reason means, for the detail of a dropped row."""

Slots = memoryview
"""Three signed 64-bit integers."""


class PoisonRow(Exception):
    """A row that must be dropped, because it would end or stop its worker.

    Args:
        reason: `timeout`, `crash` or `memory`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Watch:
    """A task's line to its watcher.

    Args:
        slots: memory that both see.
        poison: row number → why the row must be dropped.
    """

    def __init__(self, slots: Slots, poison: dict[int, str]) -> None:
        self.poison = poison
        self._slots = slots
        slots[ROW], slots[STAMP], slots[DONE] = NO_ROW, 0, 0

    def enter(self, row: int) -> str | None:
        """Note that work on a row begins, before the row is even parsed.

        Args:
            row: 0-based number within the shard, perhaps with a phase added; the same in
                every run.

        Returns:
            Why the row must be dropped unseen, or None.
        """
        self._slots[STAMP] = time.process_time_ns()
        self._slots[ROW] = row
        return self.poison.get(row)

    def done(self, rows: int = 1) -> None:
        """Note that the row at work, or so many rows, are done; no row is at work now."""
        self._slots[ROW] = NO_ROW
        self._slots[DONE] += rows

    @contextmanager
    def guarded(self, row: int) -> Iterator[None]:
        """Enter a row, do the body, and note that it is done.

        Raises:
            PoisonRow: the row must be dropped; the body was not run, or ran out of memory.
        """
        reason = self.enter(row)
        try:
            if reason is not None:
                raise PoisonRow(reason)
            yield
        except MemoryError:
            self.done()
            raise PoisonRow("memory") from None
        except PoisonRow:
            self.done()
            raise
        self.done()


Task = Callable[[Any, Any, Path, Watch], None]
"""`task(job, shard, folder, watch)`: an importable top-level function that writes the
shard's files into `folder`; job and shard can be pickled."""


def new_slots(memory: Any = None) -> Slots:
    """Three integers on `memory` (of `SLOT_BYTES`), by default on fresh memory."""
    return memoryview(bytearray(SLOT_BYTES) if memory is None else memory).cast("q")


def inline_watch() -> Watch:
    """A watch that nobody reads, for a task that is called without a process."""
    return Watch(new_slots(), {})
