"""Locks that are proven by the kernel, not by a number in a file. No torch.

A lock file with a dead process in it means nothing, so a lock is an flock: it
goes with the process, however that ends. The pid inside is for the message.
runs/stage.lock is held by the stage at work, runs/trainer.lock by the trainer.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TextIO

from pipeline.base.errors import UserError


def hold(path: Path, what: str) -> TextIO:
    """Take the lock until the returned stream is closed or the process ends.

    Args:
        what: who holds it, for the message: "a trainer", "a stage".

    Raises:
        UserError: another process holds it, naming its pid.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        raise held_by_another(path, what) from None
    stream.truncate(0)
    stream.write(f"{os.getpid()}\n")
    stream.flush()
    return stream


def held_by_another(path: Path, what: str) -> UserError:
    """The refusal to start beside the holder of a lock."""
    owner = holder(path)
    return UserError(
        f"{path}: {what} is already running (pid {owner})",
        f"Wait for it, or end it with `kill {owner}`; a trainer saves its state first.",
    )


def holder(path: Path) -> int | None:
    """Pid written by the last process that took the lock."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None


def is_held(path: Path) -> bool:
    """Whether a live process holds the lock."""
    if not path.is_file():
        return False
    with path.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
