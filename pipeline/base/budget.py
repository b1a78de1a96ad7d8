"""The wall clock of one job: what is used, what is left; keeps runs/clock.json.

Used time is the sum over all sessions of the job, so that a restart does not
begin a new budget. A session that was killed counts up to its last heartbeat.
When the machine has a `sandbox-timer` command and it reports less than the
params leave, the smaller figure holds. Another job than the one that the clock
was kept for begins a clock of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import read_json, write_json
from pipeline.base.errors import UserError

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
    job: str = ""
    """Whose clock it is; empty when nobody said."""

    def used(self) -> float:
        """Seconds used so far by all sessions."""
        return self.used_before + max(0.0, self.now() - self.session_started)

    def remaining(self) -> float:
        """Seconds left; negative when the limit has passed."""
        return self.deadline - self.now()

    def allowed(self) -> float:
        """Seconds that the whole job really has: the params' or fewer, as the machine gives."""
        return self.used_before + self.deadline - self.session_started

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
                "job": self.job,
            },
        )


def start_session(root: Path, hours: float, now: Now = time.time, job: str = "") -> Budget:
    """Begin a session: earlier sessions of an unfinished job count as used.

    A finished job, none, or another one starts a fresh clock. Called once by
    `make train` and train.sh before `dvc repro`.

    Args:
        job: tells this job from others; without it the job of the clock goes on.
    """
    record = _open_record(root)
    used = 0.0
    if record is not None and _same_job(record, job):
        used = record["used_before"] + max(0.0, record["heartbeat"] - record["session_started"])
        job = job or record.get("job", "")
    started = now()
    deadline = _deadline(started, hours * 3600 - used)
    budget = Budget(root / CLOCK_FILE, hours * 3600, used, started, deadline, now, job=job)
    budget.beat(force=True)
    return budget


def unfinished_job(root: Path) -> str:
    """Whose clock runs or was left open; empty when there is none or nobody said."""
    record = _open_record(root)
    return "" if record is None else str(record.get("job", ""))


def _read_record(path: Path) -> dict[str, Any]:
    """clock.json, which must hold every number that is reckoned with."""
    remedy = "Delete it to start a new clock."
    record = read_json(path, broken=remedy)
    needed = {"used_before", "session_started", "heartbeat", "finished"}
    if not isinstance(record, dict) or not needed <= record.keys():
        raise UserError(f"{path}: not a clock of this project", remedy)
    return record


def _open_record(root: Path) -> dict[str, Any] | None:
    """clock.json of a job that has not been finished."""
    path = root / CLOCK_FILE
    record = _read_record(path) if path.is_file() else None
    return None if record is None or record["finished"] else record


def _same_job(record: dict[str, Any], job: str) -> bool:
    """Time that nobody put a name to counts for whoever comes."""
    return not job or record.get("job", "") in ("", job)


def open_budget(root: Path, hours: float, now: Now = time.time) -> Budget:
    """Join the running session; a stage that is run by hand starts one."""
    path = root / CLOCK_FILE
    if not path.is_file():
        return start_session(root, hours, now)
    record = _read_record(path)
    if record["finished"] or now() - record["heartbeat"] > 3600:
        return start_session(root, hours, now)
    left = hours * 3600 - record["used_before"]
    started = record["session_started"]
    return Budget(
        path,
        hours * 3600,
        record["used_before"],
        started,
        _deadline(started, left),
        now,
        job=record.get("job", ""),
    )


def finish_session(root: Path) -> float:
    """Close the job; return the seconds that all its sessions used."""
    path = root / CLOCK_FILE
    if not path.is_file():
        return 0.0
    record = _read_record(path)
    record["finished"] = True
    write_json(path, record)
    return float(record["used_before"] + record["heartbeat"] - record["session_started"])


def _deadline(started: float, left: float) -> float:
    """The earlier of `started + left` and the deadline that the machine gave."""
    given = os.environ.get(DEADLINE_VARIABLE)
    return min(started + left, float(given)) if given else started + left


_UNITS = {
    "days": 86400.0, "day": 86400.0, "d": 86400.0,
    "hours": 3600.0, "hour": 3600.0, "hrs": 3600.0, "hr": 3600.0, "h": 3600.0,
    "minutes": 60.0, "minute": 60.0, "mins": 60.0, "min": 60.0, "m": 60.0,
    "seconds": 1.0, "second": 1.0, "secs": 1.0, "sec": 1.0, "s": 1.0,
}  # fmt: skip
_TERM = re.compile(
    r"(?P<sign>(?<![\w.])-)?"
    r"(?:(?:(?P<days>\d+)-)?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d\d(?:\.\d+)?)"
    rf"|(?P<number>\d+(?:\.\d+)?)(?:\s*(?P<unit>{'|'.join(_UNITS)})(?![a-z]))?)",
    re.IGNORECASE,
)
"""`1-02:03:04`, `02:03:04`, `03:04`, `3 min` or a bare `3`."""
_LABEL = re.compile(r"(?:remain|left)\w*", re.IGNORECASE)
_USED = r"elapsed|used|spent"
_OTHER_TIME = re.compile(rf"{_USED}|total|limit|\bof\b|/", re.IGNORECASE)
_TOTAL_FOLLOWS = re.compile(r"\s*(?:/|(?:out\s+)?of)\s*", re.IGNORECASE)
_PART_FOLLOWS = re.compile(r"[ \t,]*(?:and[ \t]+)?")
_VALUE_FOLLOWS = re.compile(r"[^,;\n]*[:=][ \t\"']*|[ \t\"'(]*")


@dataclass
class _Span:
    """A duration and where it stands in the text."""

    start: int
    end: int
    seconds: float
    unit: float | None
    """Seconds of its last unit; None for a number whose unit nothing tells."""
    is_total: bool = False
    """What it follows is a part of it: the 60 in `10 of 60 min`."""


def parse_duration(text: str) -> float | None:
    """Seconds in `text`: `19:58:03`, `71883`, `19h 58m 3s`, `{"remaining_minutes": 9}`.

    A number alone has the unit that the name before it tells, else seconds. In a
    text with several, e.g. elapsed and remaining, the one that is named so counts.
    Returns None when no duration can be read, 0 for one below zero.
    """
    spans = [span for span in _spans(text) if not span.is_total]
    label = _LABEL.search(text)
    if label is not None:
        chosen = _labelled(text, spans, label)
    else:
        chosen = [] if re.search(_USED, text, re.IGNORECASE) else spans
    return max(0.0, chosen[0].seconds) if chosen else None


def _labelled(text: str, spans: list[_Span], label: re.Match[str]) -> list[_Span]:
    """The one of `spans` that the label `remaining` or `left` means, or none."""
    before = [span for span in spans if span.end <= label.start()][-1:]
    after = [span for span in spans if span.start >= label.end()][:1]
    gap = text[label.end() : after[0].start] if after else ""
    if _OTHER_TIME.search(gap):
        after = []
    if after and _VALUE_FOLLOWS.fullmatch(gap):
        return after
    if before and not re.search(r"[,;\n]", text[before[0].end : label.start()]):
        return before
    return after


def _spans(text: str) -> list[_Span]:
    """The durations of a text in its order; `1 day, 2 hours` is one."""
    spans: list[_Span] = []
    for term in _TERM.finditer(text):
        seconds, unit = _value(term)
        span = _Span(term.start(), term.end(), seconds, unit)
        if spans:
            last, gap = spans[-1], text[spans[-1].end : span.start]
            if unit and last.unit and unit < last.unit and _PART_FOLLOWS.fullmatch(gap):
                last.end, last.unit = span.end, unit
                last.seconds += seconds
                continue
            span.is_total = _TOTAL_FOLLOWS.fullmatch(gap) is not None
            if span.is_total and last.unit is None:
                last.seconds *= unit or 1.0
        spans.append(span)
    return spans


def _value(term: re.Match[str]) -> tuple[float, float | None]:
    """Seconds of a term, and those of its smallest unit if it has any."""
    sign = -1.0 if term["sign"] else 1.0
    if term["number"] is None:
        days, hours, minutes = (int(term[name] or 0) for name in ("days", "hours", "minutes"))
        whole = days * 86400.0 + hours * 3600 + minutes * 60
        return sign * (whole + float(term["seconds"])), 1.0
    unit = _UNITS[term["unit"].lower()] if term["unit"] else _named_unit(term)
    return sign * float(term["number"]) * (unit or 1.0), unit


def _named_unit(term: re.Match[str]) -> float | None:
    """The unit in the name before a bare number: `remaining_minutes=90`, `hoursLeft: 2`."""
    name = re.split(r"[\d,;{\n]", term.string[: term.start()])[-1]
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return next((_UNITS[word.lower()] for word in words if word.lower() in _UNITS), None)


def machine_remaining(command: str = "sandbox-timer") -> float | None:
    """Seconds left by the machine's own timer, or None when it has none that can be read."""
    program = shutil.which(command)
    if program is None:
        return None
    done = subprocess.run(
        [program], capture_output=True, text=True, errors="replace", timeout=30, check=False
    )
    seconds = parse_duration(done.stdout) if done.returncode == 0 else None
    if seconds is None:
        said = done.stdout.strip()[:80] or done.stderr.strip()[:80]
        print(
            f"clock: {command} ended with status {done.returncode} and said {said!r}: "
            "no time left can be read; params.yaml rules",
            file=sys.stderr,
        )
    return seconds
