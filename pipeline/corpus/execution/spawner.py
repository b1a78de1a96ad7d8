"""Starts the process that forks workers, and holds one end of each worker.

Called by guard.py. The other side is worker.py, which says why it is a process apart.
"""

from __future__ import annotations

import atexit
import contextlib
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from pipeline.corpus.execution.watch import SLOT_BYTES, new_slots
from pipeline.corpus.execution.worker import FORK, MESSAGE, REAP

PROGRAM = "import sys; from pipeline.corpus.execution.worker import main; main(sys.argv[1:])"
SINGLE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONHASHSEED": "0",
}
"""Environment of workers: each has one core, and none inherits a thread."""


def import_path() -> str:
    """Where this process finds modules, as PYTHONPATH of another."""
    return os.pathsep.join(str(Path(one).absolute()) for one in sys.path)


class Spawner:
    """The process that forks workers; one for each process of ours that has guards.

    Args:
        modules: imported before the first fork, so that no worker pays for them.
    """

    def __init__(self, modules: list[str]) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno()), *modules],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **SINGLE_THREAD, "PYTHONPATH": import_path()},
                stdin=subprocess.DEVNULL,
            )
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self.pid = self._process.pid

    def alive(self) -> bool:
        return self._owner == os.getpid() and self._process.poll() is None

    def fork(self, descriptors: list[int]) -> int:
        """Start a worker on these two descriptors; its pid."""
        return self._ask(FORK, 0, descriptors)

    def reap(self, pid: int) -> int:
        """Wait for a worker that is ending; its exit code, negative for a signal."""
        return self._ask(REAP, pid, [])

    def _ask(self, what: bytes, value: int, descriptors: list[int]) -> int:
        with self._lock:
            socket.send_fds(self._channel, [MESSAGE.pack(what, value)], descriptors)
            answer = self._channel.recv(MESSAGE.size, socket.MSG_WAITALL)
        if len(answer) < MESSAGE.size:
            raise ConnectionResetError("the process that forks workers has ended")
        return int(MESSAGE.unpack(answer)[1])

    def close(self) -> None:
        """End the process; its workers, if any are left, end with it."""
        if self._owner == os.getpid():
            self._channel.close()
            self._process.wait()


_spawners: list[Spawner] = []
_spawners_lock = threading.Lock()


def running_spawner(module: str) -> Spawner:
    """The running spawner, or a fresh one that imports `module`."""
    with _spawners_lock:
        if not _spawners or not _spawners[-1].alive():
            spawner = Spawner([module])
            atexit.register(spawner.close)
            _spawners[:] = [spawner]
        return _spawners[-1]


class Worker:
    """One forked worker and the memory that it shares with us."""

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner
        ours, theirs = socket.socketpair()
        shared = os.memfd_create("watch")
        try:
            os.ftruncate(shared, SLOT_BYTES)
            self.slots = new_slots(mmap.mmap(shared, SLOT_BYTES))
            self.pid = self._spawner.fork([theirs.fileno(), shared])
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(shared)
        self.connection = Connection(ours.detach())

    def cpu_ns(self) -> int:
        """Processor time used so far; 0 once it has ended (CPUCLOCK_SCHED of Linux)."""
        try:
            return time.clock_gettime_ns((~self.pid << 3) | 2)
        except OSError:
            return 0

    def end(self, kill: bool) -> int:
        """End the worker and return its exit code; a zombie until reaped, so its pid holds."""
        self.connection.close()
        try:
            if kill and self._spawner.alive():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            return self._spawner.reap(self.pid)
        except ConnectionError:
            return -signal.SIGKILL
