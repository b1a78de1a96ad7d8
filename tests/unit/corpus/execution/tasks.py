"""Tasks for the tests of this package; importable, so that workers find them."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base.errors import UserError
from pipeline.corpus.execution.executor import PoisonRow, Watch
from pipeline.corpus.execution.shards import Shard, read_shard_lines


@dataclass(frozen=True)
class Job:
    """What happens at which line of the file (1-based), once in all if there is a witness."""

    acts: dict[int, str]
    witness: str = ""


def copy(job: Job, shard: Shard, folder: Path, watch: Watch) -> None:
    """Number every line; a poison one is listed with its reason."""
    with (folder / "out.txt").open("wb") as out, (folder / "lost.txt").open("w") as lost:
        for row, line in enumerate(read_shard_lines(shard)):
            number = shard.first_row + row
            try:
                with watch.guarded(row):
                    if number in job.acts and first_time(job.witness):
                        ACTS[job.acts[number]]()
                    out.write(b"%d %s\n" % (number, line.strip()))
                    out.flush()
            except PoisonRow as fault:
                lost.write(f"{number} {fault.reason}\n")


def careless(job: Job, shard: Shard, folder: Path, watch: Watch) -> None:
    """Enters rows and catches nothing."""
    lost = []
    for row, _ in enumerate(read_shard_lines(shard)):
        if reason := watch.enter(row):
            lost.append(f"{shard.first_row + row} {reason}\n")
        elif shard.first_row + row in job.acts:
            ACTS[job.acts[shard.first_row + row]]()
        watch.done()
    (folder / "lost.txt").write_text("".join(lost))


def stubborn(job: Any, shard: Any, folder: Path, watch: Watch) -> None:
    """Does not listen: works on row 3 even when it is poison."""
    watch.enter(3)
    os._exit(1)


def outside(job: str, shard: Any, folder: Path, watch: Watch) -> None:
    """Something happens outside of any row."""
    ACTS[job]()


def facts(job: Any, shard: Any, folder: Path, watch: Watch) -> None:
    """What a worker was born with."""
    links = [link for link in Path("/proc/self/fd").iterdir() if int(link.name) > 2]
    targets = [link.readlink() for link in links if link.is_symlink()]
    threads = len(list(Path("/proc/self/task").iterdir()))
    lines = [os.getpid(), os.getppid(), threads, os.environ["OMP_NUM_THREADS"], Path.cwd()]
    (folder / "facts.txt").write_text("\n".join(str(one) for one in [*lines, *targets]))


def first_time(witness: str) -> bool:
    if not witness:
        return True
    try:
        (Path(witness) / "happened").mkdir()
    except FileExistsError:
        return False
    return True


def _unlucky() -> None:
    raise UserError("data.jsonl:7: value 13 is unlucky.", "Use 14.")


def _bug() -> None:
    raise KeyError("no such thing")


def _full() -> None:
    raise OSError(28, "No space left on device", "/some/file")


def _hoard() -> None:
    hoard: list[bytes] = []
    while True:
        hoard.append(bytes(2**24))


def _toil() -> None:
    time.sleep(0.03)
    end = time.process_time() + 0.03
    while time.process_time() < end:
        pass


def _kill_grandparent() -> None:
    """End the process that holds the guard: a Ray worker."""
    status = Path(f"/proc/{os.getppid()}/status").read_text()
    os.kill(int(re.findall(r"PPid:\s*(\d+)", status)[0]), signal.SIGKILL)
    time.sleep(60)


ACTS: dict[str, Callable[[], object]] = {
    "power": lambda: 9**9**9,
    "regex": lambda: re.fullmatch("(a|a)*b", "a" * 60),
    "sleep": lambda: time.sleep(600),
    "pause": lambda: time.sleep(0.3),
    "toil": _toil,
    "memory": _hoard,
    "300 MiB": lambda: bytes(300 * 2**20),
    "700 MiB": lambda: bytes(700 * 2**20),
    "exit": lambda: os._exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "sigkill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "user": _unlucky,
    "bug": _bug,
    "full": _full,
    "kill-ray-worker": _kill_grandparent,
}


def see_nothing(path: str, cwd: str) -> str:
    """A node on which the folder is not there."""
    return ""
