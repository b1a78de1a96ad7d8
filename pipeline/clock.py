"""Start the wall clock of a job; not a stage.

    python -m pipeline.clock --started 1764500000     prints the deadline in epoch seconds

Reads params.yaml (`budget.hours`, and the inputs, which say what job it is) and the
machine's own timer when it has one;
writes runs/clock.json. train.sh runs it before the stages; the publisher closes
the clock when the job is complete.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pipeline.base.budget import machine_remaining, start_session, unfinished_job
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_OK, UserError
from pipeline.base.params import Params, load_params
from pipeline.base.progress import duration

Timer = Callable[[], float | None]


def left_by_machine(timer: Timer) -> float | None:
    """Seconds left by the machine's timer; a timer that fails does not stop the job."""
    try:
        return timer()
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"clock: the machine's timer failed ({error}); params.yaml rules", file=sys.stderr)
        return None


def job_of(params: Params) -> str:
    """What tells one job from another: the base, and the data that it learns from."""
    data = ", ".join(source.path for source in params.data.described())
    return f"{params.base.path} with {data}"


def begin(root: Path, started: float, timer: Timer, now: Callable[[], float] = time.time) -> float:
    """Begin a session that counts from `started`; return its deadline in epoch seconds."""
    params = load_params(root / "params.yaml")
    hours, job = params.budget.hours, job_of(params)
    open_job = unfinished_job(root)
    budget = start_session(root, hours, now=lambda: started, job=job)
    machine = left_by_machine(timer)
    deadline = budget.deadline if machine is None else min(budget.deadline, now() + machine)
    left = deadline - now()
    earlier = f", {duration(budget.used_before)} used before" if budget.used_before else ""
    limit = " by the machine's timer" if deadline < budget.deadline else ""
    other = f"; a fresh clock, the open one was of {open_job}" if open_job not in ("", job) else ""
    print(
        f"clock: {duration(left)} left{limit} of a budget of {hours:g} h{earlier}{other}",
        file=sys.stderr,
    )
    if left <= 0:
        print(
            "clock: the budget is used up. Raise `budget.hours` in params.yaml, or delete"
            " runs/clock.json to start a new job.",
            file=sys.stderr,
        )
    return deadline


def main(arguments: list[str] | None = None, timer: Timer = machine_remaining) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.clock", description=__doc__)
    parser.add_argument("--started", type=float, help="epoch seconds from which the job counts")
    chosen = parser.parse_args(arguments)
    try:
        started = time.time() if chosen.started is None else chosen.started
        # Rounded down: a deadline that has passed must not lie in the shell's future.
        print(math.floor(begin(Path(), started, timer)))
    except UserError as error:
        print(f"clock: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return EXIT_OK


if __name__ == "__main__":
    raise SystemExit(main())
