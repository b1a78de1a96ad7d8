"""Runs a task on every shard, many at a time; what is finished is not done again.

Writes SCRATCH/NAME/00000, 00001 …, one folder a shard, each either whole or not there.
Called by the corpus stages. Which shards are worked on at a time, where and in which
order, how often a worker died, changes nothing in these folders.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from pipeline.base.artifacts import remove_tree
from pipeline.base.params_corpus import ExecutorParams
from pipeline.base.progress import Progress
from pipeline.corpus.execution.guard import Guard, Work
from pipeline.corpus.execution.meter import Meter
from pipeline.corpus.execution.ray_backend import run_on_ray
from pipeline.corpus.execution.scratch import is_finished
from pipeline.corpus.execution.watch import PoisonRow, Task, Watch, inline_watch

__all__ = ["PoisonRow", "Task", "Watch", "inline_watch", "run_shards"]

REPORT_SECONDS = 0.25


def run_shards(
    name: str,
    task: Task,
    job: Any,
    shards: Sequence[Any],
    scratch: Path,
    settings: ExecutorParams,
    progress: Progress,
    sizes: Sequence[int] | None = None,
) -> list[Path]:
    """Run `task(job, shard, folder, watch)` once for every shard, several at a time.

    Args:
        name: names the work and its folder below `scratch`.
        task: an importable top-level function; job and shard can be pickled, and the
            `repr` of a shard tells it from any other.
        scratch: folder of this run (scratch.py); with Ray, on a file system that all share.
        progress: counts rows, and shows the shards done and the time left.
        sizes: bytes of each shard, for the time left; equal by default.

    Returns:
        The shards' folders, in order.

    Raises:
        UserError: raised by a task; a shard that no worker survives; no Ray cluster.
        WorkerError: a task has a bug; the text is its traceback.
    """
    home = scratch / name
    home.mkdir(parents=True, exist_ok=True)
    targets = [home / f"{number:05d}" for number in range(len(shards))]
    weights = sizes if sizes is not None else [1] * len(shards)
    meter = Meter(progress, weights)
    work = []
    for number, (shard, target) in enumerate(zip(shards, targets)):
        if is_finished(target, shard):
            meter.skip(number)
        else:
            work.append(Work(number, shard, target))
    _sweep(home, set(targets) - {one.target for one in work})
    if work and settings.backend == "ray":
        run_on_ray(name, task, job, work, settings, meter)
    elif work:
        _run_here(name, task, job, work, settings, meter)
    _sweep(home, set(targets))
    meter.report([])
    return targets


def _sweep(home: Path, finished: set[Path]) -> None:
    """Remove what was left unfinished, and shards of another plan."""
    for folder in home.iterdir():
        if folder not in finished:
            remove_tree(folder)


def _run_here(
    name: str, task: Task, job: Any, work: list[Work], settings: ExecutorParams, meter: Meter
) -> None:
    stop = threading.Event()
    waiting: SimpleQueue[Work] = SimpleQueue()
    for one in work:
        waiting.put(one)
    count = min(settings.workers or len(os.sched_getaffinity(0)), len(work))
    guards = [Guard(name, task, settings, stop) for _ in range(count)]
    at_work: dict[Guard, int] = {}

    def labour(guard: Guard) -> None:
        with guard:
            while not stop.is_set():
                try:
                    one = waiting.get_nowait()
                except Empty:
                    return
                at_work[guard] = one.number
                rows = guard.run(job, one.shard, one.target)
                del at_work[guard]
                meter.finish(one.number, rows)

    with ThreadPoolExecutor(count, thread_name_prefix=name) as pool:
        try:
            futures = [pool.submit(labour, guard) for guard in guards]
            while True:
                done, open_ = wait(futures, REPORT_SECONDS, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                if not open_:
                    return
                meter.report([(number, guard.rows) for guard, number in list(at_work.items())])
        finally:
            stop.set()
