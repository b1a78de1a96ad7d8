"""What long work prints: one updated line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO


def duration(seconds: float) -> str:
    """`71883` → `19h58m`, `75` → `1m15s`, `9.2` → `9s`."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{secs:02d}s" if minutes else f"{secs}s"


class Progress:
    """Counts work done and prints rate, ETA and what the caller adds.

    Args:
        label: what is being done, e.g. "filter".
        unit: what is counted, e.g. "rows" or "tokens".
        total: units in all, or None when unknown.
        every_seconds: shortest time between two printed lines.
    """

    def __init__(
        self,
        label: str,
        unit: str,
        total: int | None,
        *,
        every_seconds: float = 5.0,
        stream: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label, self.unit, self.total = label, unit, total
        self.stream = stream if stream is not None else sys.stderr
        self.terminal = self.stream.isatty()
        self.every = 0.5 if self.terminal else every_seconds
        self.now = now
        self.started = self.printed = now()
        self.done = 0
        self.share: float | None = None

    def add(self, count: int, note: str = "", share: float | None = None) -> None:
        """Count `count` more units; print if it is time to.

        Args:
            share: how much of the work since the start is done, in [0, 1], if that is
                known otherwise than from the total.
        """
        self.done += count
        self.share = share
        if self.now() - self.printed >= self.every:
            self._print(note, end="\r" if self.terminal else "\n")

    def close(self, note: str = "") -> None:
        """Print the final line."""
        self._print(note, end="\n")

    def _print(self, note: str, end: str) -> None:
        self.printed = self.now()
        seconds = max(self.printed - self.started, 1e-9)
        rate = self.done / seconds
        parts = [f"{self.label}: {self.done:,}"]
        if self.total is not None:
            parts[0] += f"/{self.total:,}"
        parts[0] += f" {self.unit}"
        parts.append(f"{rate:,.0f} {self.unit}/s")
        share = self.share
        if share is None and self.total:
            share = self.done / self.total
        if share is not None and 0 < share < 1:
            parts.append(f"ETA {duration(seconds * (1 - share) / share)}")
        if note:
            parts.append(note)
        clear = "\x1b[K" if self.terminal else ""
        self.stream.write(" · ".join(parts) + clear + end)
        self.stream.flush()
