"""What long work prints: plain lines into a log, one changing line on a terminal."""

from __future__ import annotations

import io

import pytest

from pipeline.base.progress import Progress, duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Time that passes only when told to."""

    time = 0.0

    def __call__(self) -> float:
        return self.time


def run(stream: io.StringIO, seconds: list[float], total: int | None = 100) -> list[str]:
    """Ten units at each of the given times, then the end; the lines printed."""
    clock = Clock()
    progress = Progress("filter", "rows", total, stream=stream, now=clock)
    for clock.time in seconds:
        progress.add(10)
    progress.close("3 dropped")
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0s"), (9.2, "9s"), (59.6, "1m00s"), (75, "1m15s"), (71883, "19h58m"), (-5, "0s")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_log_gets_whole_lines_now_and_then() -> None:
    lines = run(io.StringIO(), [1.0, 2.0, 6.0, 7.0])
    assert lines == [
        "filter: 30/100 rows · 5 rows/s · ETA 14s",
        "filter: 40/100 rows · 6 rows/s · ETA 10s · 3 dropped",
    ]


def test_a_terminal_gets_one_line_that_changes() -> None:
    stream = Terminal()
    run(stream, [1.0, 2.0, 3.0])
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().count("\r") == 3
    assert "\x1b[K" in stream.getvalue()


def test_without_a_total_there_is_no_eta() -> None:
    (line, *_) = run(io.StringIO(), [6.0], total=None)
    assert line.startswith("filter: 10 rows · 2 rows/s")
    assert "ETA" not in line


def test_a_share_known_otherwise_gives_the_time_left() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress("filter", "rows", None, stream=stream, now=clock)
    clock.time = 30.0
    progress.add(10, "1/4 shards", share=0.25)
    assert stream.getvalue() == "filter: 10 rows · 0 rows/s · ETA 1m30s · 1/4 shards\n"


def test_no_work_is_no_division_by_zero() -> None:
    stream = io.StringIO()
    Progress("filter", "rows", 0, stream=stream, now=lambda: 1.0).close()
    assert stream.getvalue() == "filter: 0/0 rows · 0 rows/s\n"
