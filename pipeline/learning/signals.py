"""A signal sets a flag; the loop acts on it at the next micro-batch. No torch."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def handle_stopping(handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Send every stopping signal to `handler`; returns what stood there before.

    A hang-up that was ignored when the process started stays ignored: that is how
    `nohup` lets a run outlive its terminal.
    """
    previous: dict[int, Any] = {}
    for number in STOPPING:
        before = signal.getsignal(number)
        if number == signal.SIGHUP and before == signal.SIG_IGN:
            continue
        previous[number] = before
        signal.signal(number, handler)
    return previous


def ignore_stopping() -> None:
    """From here on a signal changes nothing: the process is about to end by itself.

    At its shutdown Python puts handlers back to their defaults, and a repeated
    signal would then turn an orderly exit code into a death.
    """
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


class StopRequest:
    """Whether this process was asked to end, and by what.

    Also true when the process that started this one is gone: a trainer without
    its supervisor would go on where nobody publishes what it makes.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._parent = os.getppid()
        handle_stopping(self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.reason = self.reason or signal.Signals(number).name

    def __call__(self) -> bool:
        if not self.reason and os.getppid() != self._parent:
            self.reason = "the supervisor is gone"
        return bool(self.reason)
