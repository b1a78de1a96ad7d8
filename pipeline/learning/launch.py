"""How the ranks of a run are started: command lines, environments, pipes. No torch.

Used by supervisor.py. Each rank is a direct child with torchrun's variables; torchrun
can start the same command where a job spans machines.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from pipeline.learning.job import Job
from pipeline.learning.pulse import PULSE_VARIABLE, Listener

WORKER = "pipeline.learning.worker"
Rank = tuple[subprocess.Popen[bytes], Listener]
"""A process and what it says."""


def command(job: Job, stop_at: float, reserve: float = 0.0) -> list[str]:
    """The command line of every rank; they differ in their environment alone.

    Args:
        stop_at: epoch seconds at which training must have ended.
        reserve: seconds after that which are kept for the last save and hand-out.
    """
    times = ["--stop-at", f"{stop_at:.1f}", "--reserve", f"{reserve:.1f}"]
    return [sys.executable, "-m", WORKER, str(job.run), *times]


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


def start_rank(arguments: list[str], variables: dict[str, str]) -> Rank:
    """Start one rank that sends its signs of life to the listener that comes with it."""
    listener = Listener()
    pulse = {PULSE_VARIABLE: str(listener.writer)}
    try:
        process = subprocess.Popen(
            arguments, env={**os.environ, **variables, **pulse}, pass_fds=(listener.writer,)
        )
    finally:
        listener.started()
    return process, listener
