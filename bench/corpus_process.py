"""Runs a command on one core and watches the memory and disk that it takes.

Called by `bench.corpus`. Peaks are the kernel's own high-water marks (VmHWM), so that polling
misses only what a process takes in its last `POLL_SECONDS`. File-backed pages count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.1
DISK_SECONDS = 1.0
ONE_CORE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Run:
    """What a command took."""

    seconds: float
    processor_seconds: float
    """Of the command and all below it."""
    worker_peak_bytes: int
    """Of the largest process below the command's own; 0 without any."""
    disk_bytes: int
    """Largest size of the watched folder."""
    stdout: str


def run_watched(command: list[str], cwd: Path, core: int, log: Path) -> Run:
    """Run `command` in `cwd`, pinned to one core with all below it; stderr goes to `log`.

    Raises:
        SystemExit: it failed; the end of its log is printed.
    """
    environment = os.environ | ONE_CORE | {"PYTHONPATH": str(ROOT)}
    pinned = ["taskset", "-c", str(core), *command]
    output = log.with_suffix(".out")
    start = time.perf_counter()
    with log.open("wb") as errors, output.open("wb") as stdout:
        child = subprocess.Popen(pinned, cwd=cwd, env=environment, stdout=stdout, stderr=errors)
        peaks, disk, looked = 0, 0, 0.0
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            peaks = max([peaks, *map(peak_bytes, _below(child.pid))])
            if time.monotonic() - looked > DISK_SECONDS:
                disk, looked = max(disk, folder_bytes(cwd)), time.monotonic()
            time.sleep(POLL_SECONDS)
        child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if child.returncode:
        print(log.read_text(errors="replace")[-3000:], file=sys.stderr)
        raise SystemExit(f"{' '.join(command)}: exit {child.returncode}, see {log}")
    worked = usage.ru_utime + usage.ru_stime
    return Run(seconds, worked, peaks, max(disk, folder_bytes(cwd)), output.read_text())


def _below(pid: int) -> list[int]:
    """Ids of all processes that descend from one."""
    found: list[int] = []
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except OSError:  # it has just ended
        return found
    for child in children:
        found += [child, *_below(child)]
    return found


def peak_bytes(pid: int) -> int:
    """Most memory that a process has held so far; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


def folder_bytes(folder: Path) -> int:
    """Bytes on disk of all files below a folder, each inode once."""
    seen: dict[int, int] = {}
    for path in folder.rglob("*"):
        try:
            status = path.lstat()
        except OSError:  # renamed or removed meanwhile
            continue
        seen[status.st_ino] = status.st_blocks * 512
    return sum(seen.values())
