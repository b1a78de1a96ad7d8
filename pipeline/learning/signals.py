"""A signal sets a flag; the loop acts on it at the next micro-batch. No torch."""

from __future__ import annotations

import os
import signal
from types import FrameType

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopRequest:
    """Whether this process was asked to end, and by what.

    Also true when the process that started this one is gone: a trainer without
    its supervisor would go on where nobody publishes what it makes.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._parent = os.getppid()
        for number in STOPPING:
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.reason = self.reason or signal.Signals(number).name

    def __call__(self) -> bool:
        if not self.reason and os.getppid() != self._parent:
            self.reason = "the supervisor is gone"
        return bool(self.reason)
