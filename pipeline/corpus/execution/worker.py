"""The watched side: a process without threads that forks one worker for each guard.

Run by spawner.py, with a socket and the modules to import; nobody else runs it. Started
afresh, it shares neither locks nor threads nor open files with the stage; forking from it
costs milliseconds because the modules are already imported. It ends when its stage does,
and the kernel then ends the workers, whatever they are doing.
"""

from __future__ import annotations

import ctypes
import importlib
import mmap
import os
import pickle
import resource
import signal
import socket
import struct
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from pipeline.base.errors import UserError
from pipeline.corpus.execution.watch import SLOT_BYTES, Slots, Watch, new_slots

FORK, REAP = b"F", b"R"
MESSAGE = struct.Struct("=cq")
"""Requests and answers: FORK (with two descriptors) → pid; REAP pid → exit code."""
PR_SET_PDEATHSIG = 1
REAP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Order:
    """One run of a task on one shard."""

    module: str
    function: str
    job: Any
    shard: Any
    folder: str
    poison: dict[int, str]
    cwd: str
    memory_bytes: int
    """Memory that the worker may add."""


@dataclass(frozen=True, slots=True)
class Reply:
    """How a run ended; `texts` say the rest, for a fault."""

    kind: Literal["done", "user", "system", "memory", "bug"]
    texts: tuple[Any, ...] = ()
    retire: bool = False
    """The worker has grown and should be replaced by a fresh one."""


class _Faults:
    """Turns whatever a task raises into a reply."""

    reply = Reply("done")

    def __enter__(self) -> _Faults:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, UserError):
            self.reply = Reply("user", (error.problem, error.remedy))
        elif isinstance(error, MemoryError):
            self.reply = Reply("memory", retire=True)
        elif error is not None:
            text = "".join(traceback.format_exception(error))
            self.reply = Reply("bug", (text,))
            if isinstance(error, OSError) and error.errno is not None:
                self.reply = Reply("system", (text, error.errno, error.strerror, error.filename))
        return True


def data_bytes() -> int:
    """Memory of this process as RLIMIT_DATA counts it: private and writable (VmData)."""
    text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    line = next(line for line in text.splitlines() if line.startswith("VmData:"))
    return int(line.split()[1]) * 1024


def _run(message: bytes, slots: Slots, bytes_at_start: int) -> Reply:
    faults = _Faults()
    limit = 0
    with faults:
        order: Order = pickle.loads(message)
        limit = order.memory_bytes
        _limit_memory(data_bytes() + limit)
        os.chdir(order.cwd)
        task = attrgetter(order.function)(importlib.import_module(order.module))
        task(order.job, order.shard, Path(order.folder), Watch(slots, order.poison))
    reply = faults.reply
    retire = reply.retire or data_bytes() - bytes_at_start > limit // 2
    return Reply(reply.kind, reply.texts, retire)


def _limit_memory(limit: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _die_with(parent: int) -> None:
    """Ask the kernel for a SIGKILL when the forking process ends (Linux prctl(2))."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os.kill(os.getpid(), signal.SIGKILL)


def _serve(connection: Connection, slots: Slots) -> None:
    bytes_at_start = data_bytes()
    while True:
        try:
            message = connection.recv_bytes()
        except EOFError:
            return
        connection.send(_run(message, slots, bytes_at_start))


def _reap(pid: int) -> int:
    """Exit code of a child that is about to end; one that does not is killed."""
    end = time.monotonic() + REAP_SECONDS
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def main(arguments: list[str]) -> None:
    """Answer requests until the stage closes its end; in a fork, serve one guard."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the stage decides
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, nobody could be waited for
    descriptor, *modules = arguments
    parent = os.getpid()
    for module in modules:
        importlib.import_module(module)
    with socket.socket(fileno=int(descriptor)) as channel:
        while True:
            request, descriptors, _, _ = socket.recv_fds(channel, MESSAGE.size, 2)
            if not request:
                return
            what, pid = MESSAGE.unpack(request)
            if what == REAP:
                channel.sendall(MESSAGE.pack(REAP, _reap(pid)))
                continue
            pid = os.fork()
            if pid == 0:
                break
            for one in descriptors:
                os.close(one)
            channel.sendall(MESSAGE.pack(FORK, pid))
    _die_with(parent)
    slots = new_slots(mmap.mmap(descriptors[1], SLOT_BYTES))
    _serve(Connection(descriptors[0]), slots)
