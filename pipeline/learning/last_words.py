"""Keeps the traceback of a rank that dies of an exception, for the doctor to read.

Called by worker.py. Writes runs/<key>/error-<rank>.txt; standard error gets the same text.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from pathlib import Path
from types import TracebackType


def error_file(run: Path, rank: int) -> Path:
    """Where a rank writes what ended it."""
    return run / f"error-{rank}.txt"


def keep_last_words(path: Path) -> None:
    """Write any exception that ends this process to `path`; what stands there goes now."""
    path.unlink(missing_ok=True)

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        # A full disk may be what ends it: the terminal must still get its text.
        with contextlib.suppress(OSError):
            path.write_text("".join(traceback.format_exception(kind, error, trace)), "utf-8")
        sys.__excepthook__(kind, error, trace)

    sys.excepthook = note
