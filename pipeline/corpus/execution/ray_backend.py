"""Spreads guards over a Ray cluster whose nodes share the project's folder.

Ray is an optional extra, imported only when `executor.backend` is `ray`. Each shard is
one Ray task that holds a guard (guard.py) and so a watched process, as on one machine;
the code is the one in the shared folder. Called by executor.py.
"""

from __future__ import annotations

import importlib
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.base.errors import UserError
from pipeline.base.params_corpus import ExecutorParams
from pipeline.corpus.execution.guard import Guard, Work, WorkerError, raise_fault
from pipeline.corpus.execution.meter import Meter
from pipeline.corpus.execution.spawner import SINGLE_THREAD, import_path
from pipeline.corpus.execution.watch import Task
from pipeline.corpus.execution.worker import Reply

ATTEMPTS = 8
"""Times that a shard may lose its node or its Ray worker before the run gives up."""
PROBE_SECONDS = 60.0
CONNECT_SECONDS = 5.0


def run_on_ray(
    name: str, task: Task, job: Any, work: list[Work], settings: ExecutorParams, meter: Meter
) -> None:
    """Run the task on every shard of `work`, at most `workers` at a time.

    Raises:
        UserError: no Ray, no cluster, a node that does not see this folder; from a task.
        WorkerError: a task has a bug.
    """
    with _cluster(settings.address) as ray:
        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        _require_shared_folder(ray, nodes, work[0].target.parent)
        cores = sum(int(node["Resources"]["CPU"]) for node in nodes)
        limit = max(1, settings.workers or cores)
        remote = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(_run_shard)
        shared_job = ray.put(job)
        waiting, running = list(reversed(work)), dict[Any, Work]()
        try:
            while waiting or running:
                while waiting and len(running) < limit:
                    one = waiting.pop()
                    running[
                        remote.remote(name, task, shared_job, one, settings, str(Path.cwd()))
                    ] = one
                done, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
                for reference in done:
                    one = running.pop(reference)
                    meter.finish(one.number, _rows(ray, reference, f"{name}, shard {one.number}"))
                meter.report([])
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _rows(ray: Any, reference: Any, what: str) -> int:
    try:
        reply: Reply = ray.get(reference)
    except ray.exceptions.RayTaskError:
        raise  # a bug of ours, with its traceback
    except ray.exceptions.RayError as error:
        raise UserError(
            f"{what}: lost by Ray {ATTEMPTS} times or not to be started ({_one_line(error)})",
            "Look at the cluster with `ray status`, then run again; finished shards are kept.",
        ) from None
    raise_fault(reply)
    return int(reply.texts[0])


def _run_shard(
    name: str, task: Task, job: Any, work: Work, settings: ExecutorParams, cwd: str
) -> Reply:
    """Runs in a Ray worker: guard one shard from the project's folder.

    Faults go back as a reply: an exception would reach the stage wrapped in one of Ray's.
    """
    os.chdir(cwd)
    try:
        with Guard(name, task, settings, threading.Event()) as guard:
            return Reply("done", (guard.run(job, work.shard, work.target),))
    except UserError as error:
        return Reply("user", (error.problem, error.remedy))
    except WorkerError as error:
        return Reply("bug", (error.trace,))
    except OSError as error:
        trace = str(error.__cause__ or error)
        return Reply("system", (trace, error.errno, error.strerror, error.filename))


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """The `ray` module, connected; a connection that was there before is left as it is.

    Raises:
        UserError: Ray is not installed, or no cluster answers at the address.
    """
    try:
        ray = importlib.import_module("ray")
    except ModuleNotFoundError:
        raise UserError(
            "executor.backend: ray is not installed here",
            "Install it (`pip install ray`) on every node, or set executor.backend: processes.",
        ) from None
    if ray.is_initialized():
        yield ray
        return
    _require_answer(address)
    environment = {**SINGLE_THREAD, "PYTHONPATH": import_path()}
    try:
        ray.init(
            address=address,
            runtime_env={"env_vars": environment},
            log_to_driver=False,
            logging_level="warning",
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, error) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Try HOST:PORT ourselves: Ray ends the whole process when nobody answers there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str, error: Exception) -> UserError:
    return UserError(
        f"executor.address: no Ray cluster at {address!r} ({_one_line(error)})",
        "Start one with `ray start --head`, correct the address, or set "
        "executor.backend: processes.",
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _require_shared_folder(ray: Any, nodes: list[Any], home: Path) -> None:
    """Refuse to start if a node sees another folder, or none, where the shards are to lie."""
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    token = home / f".shared.{uuid.uuid4().hex}"
    token.write_text(token.name, encoding="utf-8")
    remote = ray.remote(num_cpus=0, max_retries=ATTEMPTS - 1)(_reads)
    try:
        answers = {
            remote.options(
                scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(
                    node["NodeID"], soft=False
                )
            ).remote(str(token.absolute()), str(Path.cwd())): node["NodeManagerAddress"]
            for node in nodes
        }
        done, _ = ray.wait(list(answers), num_returns=len(answers), timeout=PROBE_SECONDS)
        blind = [answers[one] for one in answers if one not in done]
        blind += [answers[one] for one in done if _failed(ray, one, token.name)]
    finally:
        token.unlink(missing_ok=True)
    if blind:
        raise UserError(
            f"{home.absolute()}: not seen by the Ray nodes {', '.join(sorted(blind))}",
            "Put the project on a file system that all nodes mount at the same path, or set "
            "executor.backend: processes.",
        )


def _failed(ray: Any, reference: Any, expected: str) -> bool:
    try:
        found: str = ray.get(reference)
    except ray.exceptions.RayError:
        return True
    return found != expected


def _reads(path: str, cwd: str) -> str:
    """Runs on a node: what it reads at `path`; empty if the folder is not there."""
    if not Path(path).is_file() or not Path(cwd).is_dir():
        return ""
    return Path(path).read_text(encoding="utf-8")
