"""One trainer at a time, proven by the kernel; keeps runs/trainer.lock. No torch.

A lock file with a dead process in it means nothing, so the lock is an flock: it
goes with the process, however that ends. The pid inside is for the message.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TextIO

from pipeline.base.errors import UserError


def hold(path: Path) -> TextIO:
    """Take the lock until the returned stream is closed or the process ends.

    Raises:
        UserError: another trainer is alive, naming its pid.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = holder(path)
        stream.close()
        raise UserError(
            f"{path}: a trainer is already running (pid {owner})",
            f"Wait for it, or end it with `kill {owner}`; it saves its state first.",
        ) from None
    stream.truncate(0)
    stream.write(f"{os.getpid()}\n")
    stream.flush()
    return stream


def holder(path: Path) -> int | None:
    """Pid written by the last trainer that took the lock."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None


def is_held(path: Path) -> bool:
    """Whether a live trainer holds the lock."""
    if not path.is_file():
        return False
    with path.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
