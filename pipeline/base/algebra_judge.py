"""Asks a worker process whether two answers are equal by algebra, within time and memory.

Called by policies.py. Owns one worker (algebra_worker.py), started at the first question
and replaced when it was killed for taking too long or died. Writes nothing.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import IO, Literal

from pipeline.base.errors import UserError

Judgement = Literal["same", "different", "given-up"]

SECONDS = 2.0
"""Wall-clock limit of one comparison."""
MEMORY_GIB = 1.0
"""Limit of the worker's address space; sympy itself takes about 0.2."""
START_SECONDS = 120.0
"""Limit for importing sympy, on a busy machine."""
REMEMBERED = 4096
"""Judgements kept; replies to one problem repeat their answers."""

_ROOT = Path(__file__).resolve().parents[2]


class AlgebraJudge:
    """One worker and the judgements it has given. A context manager.

    Args:
        seconds: wall-clock limit of one comparison.
        memory_gib: limit of the worker's address space, GiB.
    """

    def __init__(self, seconds: float = SECONDS, memory_gib: float = MEMORY_GIB) -> None:
        self._seconds, self._memory = seconds, memory_gib
        self._worker: subprocess.Popen[bytes] | None = None
        self._known: OrderedDict[tuple[str, str], Judgement] = OrderedDict()

    def __enter__(self) -> AlgebraJudge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def judge(self, left: str, right: str) -> Judgement:
        """Compare two cleaned answers; "given-up" when a limit of time or memory was hit.

        Raises:
            UserError: the worker cannot be started.
        """
        pair = (left, right)
        found = self._known.get(pair)
        if found is None:
            found = self._known[pair] = self._ask(pair)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found

    def _ask(self, pair: tuple[str, str]) -> Judgement:
        worker = self._worker = self._worker or self._started()
        try:
            os.write(_pipe(worker.stdin), json.dumps(pair).encode() + b"\n")
        except BrokenPipeError:
            self.close()
            return "given-up"
        outcome = _line(worker, self._seconds)
        if outcome == "":
            self.close()
        if outcome in ("", "too-large"):
            return "given-up"
        return "same" if outcome == "same" else "different"

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pipeline.base.algebra_worker", str(self._memory)]
        worker = subprocess.Popen(
            command,
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if _line(worker, START_SECONDS) != "ready":
            _end(worker)
            raise UserError(
                f"grading policy symbolic: its worker ({' '.join(command)}) does not start",
                "Install sympy, or use the policy strict.",
            )
        return worker

    def close(self) -> None:
        """End the worker; a later question starts another."""
        if self._worker is not None:
            _end(self._worker)
            self._worker = None


def _pipe(end: IO[bytes] | None) -> int:
    if end is None:
        raise ValueError("the worker was started without pipes")
    return end.fileno()


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()
    worker.wait()


def _line(worker: subprocess.Popen[bytes], seconds: float) -> str:
    """The worker's next line; empty if it does not come in time or the worker has died."""
    pipe, end, read = _pipe(worker.stdout), time.monotonic() + seconds, b""
    while not read.endswith(b"\n"):
        ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return ""
        piece = os.read(pipe, 4096)
        if not piece:
            return ""
        read += piece
    return read.decode().strip()
