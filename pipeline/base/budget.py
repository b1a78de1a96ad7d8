"""The wall clock of one job: what is used, what is left; keeps runs/clock.json.

Used time is the sum over all sessions of the job, so that a restart does not
begin a new budget. A session that was killed counts up to its last heartbeat.
When the machine has a `sandbox-timer` command and it reports less than the
params leave, the smaller figure holds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipeline.base.artifacts import read_json, write_json

Now = Callable[[], float]
"""A clock in seconds since the epoch; tests inject their own."""

CLOCK_FILE = Path("runs/clock.json")
DEADLINE_VARIABLE = "TRACEBOX_DEADLINE_UNIX"
"""Environment variable with an absolute deadline, set by train.sh for its stages."""
HEARTBEAT_SECONDS = 5.0


@dataclass
class Budget:
    """Seconds used and left. `beat` writes them down; call it often."""

    path: Path
    total_seconds: float
    used_before: float
    """Seconds used by earlier sessions of this job."""
    session_started: float
    deadline: float
    """Absolute end in epoch seconds: the earlier of params and machine."""
    now: Now
    last_beat: float = 0.0

    def used(self) -> float:
        """Seconds used so far by all sessions."""
        return self.used_before + max(0.0, self.now() - self.session_started)

    def remaining(self) -> float:
        """Seconds left; negative when the limit has passed."""
        return self.deadline - self.now()

    def beat(self, force: bool = False) -> None:
        """Write down the time used, at most every `HEARTBEAT_SECONDS`."""
        now = self.now()
        if not force and now - self.last_beat < HEARTBEAT_SECONDS:
            return
        self.last_beat = now
        write_json(
            self.path,
            {
                "total_seconds": self.total_seconds,
                "used_before": self.used_before,
                "session_started": self.session_started,
                "heartbeat": now,
                "finished": False,
            },
        )


def start_session(root: Path, hours: float, now: Now = time.time) -> Budget:
    """Begin a session: earlier sessions of an unfinished job count as used.

    A finished job, or none, starts a fresh clock. Called once by `make train`
    and train.sh before `dvc repro`.
    """
    path = root / CLOCK_FILE
    used = 0.0
    if path.is_file():
        record = read_json(path)
        if not record["finished"]:
            used = record["used_before"] + max(0.0, record["heartbeat"] - record["session_started"])
    started = now()
    budget = Budget(path, hours * 3600, used, started, _deadline(started, hours * 3600 - used), now)
    budget.beat(force=True)
    return budget


def open_budget(root: Path, hours: float, now: Now = time.time) -> Budget:
    """Join the running session; a stage that is run by hand starts one."""
    path = root / CLOCK_FILE
    if not path.is_file():
        return start_session(root, hours, now)
    record = read_json(path)
    if record["finished"] or now() - record["heartbeat"] > 3600:
        return start_session(root, hours, now)
    left = hours * 3600 - record["used_before"]
    started = record["session_started"]
    return Budget(path, hours * 3600, record["used_before"], started, _deadline(started, left), now)


def finish_session(root: Path) -> float:
    """Close the job; return the seconds that all its sessions used."""
    path = root / CLOCK_FILE
    if not path.is_file():
        return 0.0
    record = read_json(path)
    record["finished"] = True
    write_json(path, record)
    return float(record["used_before"] + record["heartbeat"] - record["session_started"])


def _deadline(started: float, left: float) -> float:
    """The earlier of `started + left` and the deadline that the machine gave."""
    given = os.environ.get(DEADLINE_VARIABLE)
    return min(started + left, float(given)) if given else started + left


_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def parse_duration(text: str) -> float | None:
    """Seconds in `text`: `19:58:03`, `71883`, `19h 58m 3s`, `{"remaining_seconds": 9}`.

    In a text with several, e.g. elapsed and remaining, the one that is named so
    counts. Returns None when no duration can be read.
    """
    named = re.search(r"(?:remain\w*|left)[\s\"':=]*(?=\d)", text, re.IGNORECASE)
    if named:
        text = text[named.end() :]
    clock = re.search(r"\b(\d+):(\d{2}):(\d{2})\b", text)
    if clock:
        hours, minutes, seconds = (int(part) for part in clock.groups())
        return hours * 3600.0 + minutes * 60 + seconds
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(d|h|m|s)[a-z]*", text.lower())
    if parts:
        return sum(float(value) * _UNITS[unit] for value, unit in parts)
    number = re.search(r"\d+(?:\.\d+)?", text)
    return float(number.group()) if number else None


def machine_remaining(command: str = "sandbox-timer") -> float | None:
    """Seconds left by the machine's own timer, or None when it has none."""
    program = shutil.which(command)
    if program is None:
        return None
    done = subprocess.run([program], capture_output=True, text=True, timeout=30, check=False)
    return parse_duration(done.stdout)
