"""A worker that hangs in its steps, for tests of the supervisor.

    python -m tests.support.hanging runs/<key> --stop-at UNIX

HANG_AT: steps that hang, counted from 1, each once a run. HANG_RANK: the rank that does.
It sleeps in C code and keeps the interpreter's lock, so that no Python thread of that
process can run either. SIGNAL_IN_SAVE: send SIGTERM to the rank itself in the middle of
every save.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path
from typing import Any

from pipeline.learning import pulse, saving, worker
from pipeline.learning.step import Stepper

LIMIT_SECONDS = 4.0


def install() -> None:
    """Make the chosen steps hang, and every limit of a step a short one."""
    at = {int(step) for step in os.environ.get("HANG_AT", "0").split(",")}
    guilty = os.environ.get("RANK", "0") == os.environ.get("HANG_RANK", "0")
    accumulate = Stepper._accumulate

    def hang(stepper: Stepper, step: int, *rest: Any) -> Any:
        done = Path(stepper.job.run / f"hung-{step + 1}")
        if guilty and step + 1 in at and not done.exists():
            done.touch()
            ends = time.monotonic() + 600  # by itself, should the test be killed
            while time.monotonic() < ends:  # a signal ends one sleep, and must not end the hang
                ctypes.PyDLL(None).sleep(600)
        return accumulate(stepper, step, *rest)

    pulse.SHORTEST_SECONDS, pulse.FIRST_STEPS = LIMIT_SECONDS, 1
    Stepper._accumulate = hang  # type: ignore[method-assign, assignment]
    if os.environ.get("SIGNAL_IN_SAVE"):
        _signal_in_save()


def _signal_in_save() -> None:
    write = saving.TrainingTensors.write

    def interrupted(tensors: saving.TrainingTensors, folder: Path) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        write(tensors, folder)

    saving.TrainingTensors.write = interrupted  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    install()
    raise SystemExit(worker.main())
