"""Forget DVC locks whose holders are gone; not a stage.

    python -m pipeline.unlock

DVC notes in .dvc/tmp/rwlock which process reads or writes which output. After a
SIGKILL that note stays: a dead holder that its parent never collected still has
a process number, and a note cut short in writing cannot be read; either would
block every later run. train.sh runs this under its own lock, before `dvc repro`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOTES = Path(".dvc/tmp/rwlock")


def is_alive(pid: int, processes: Path = Path("/proc")) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        # The name, in brackets, may hold anything; the state is the field after it.
        state = (processes / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def holders(notes: Any) -> set[int]:
    """Process numbers in the note; empty for one that makes no sense."""
    if not isinstance(notes, dict):
        return set()
    writers = list(notes.get("write", {}).values())
    readers = [entry for entries in notes.get("read", {}).values() for entry in entries]
    return {int(entry["pid"]) for entry in (*writers, *readers)}


def forget_dead(path: Path = NOTES, processes: Path = Path("/proc")) -> bool:
    """Delete the note when nobody in it lives; returns whether it did."""
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except (json.JSONDecodeError, UnicodeDecodeError):
        notes = None
    if any(is_alive(pid, processes) for pid in holders(notes)):
        return False
    path.unlink()
    return True


if __name__ == "__main__":
    forget_dead()
