"""The clock over restarts, kills and the machine's own timer; time is injected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.base.budget import (
    CLOCK_FILE,
    DEADLINE_VARIABLE,
    HEARTBEAT_SECONDS,
    finish_session,
    machine_remaining,
    open_budget,
    parse_duration,
    start_session,
    unfinished_job,
)


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.delenv(DEADLINE_VARIABLE, raising=False)
    return Clock()


def test_a_session_counts_down(tmp_path: Path, clock: Clock) -> None:
    budget = start_session(tmp_path, 1.0, clock)
    assert (budget.used(), budget.remaining()) == (0, 3600)
    clock.time += 4000
    assert (budget.used(), budget.remaining()) == (4000, -400)


def test_a_restart_begins_no_new_budget(tmp_path: Path, clock: Clock) -> None:
    first = start_session(tmp_path, 1.0, clock)
    clock.time += 1000
    first.beat(force=True)
    clock.time += 50_000  # the machine was off
    second = start_session(tmp_path, 1.0, clock)
    assert (second.used(), second.remaining()) == (1000, 2600)
    clock.time += 600
    second.beat(force=True)
    third = start_session(tmp_path, 1.0, clock)
    assert (third.used(), third.remaining()) == (1600, 2000)


def test_a_killed_session_counts_up_to_its_last_heartbeat(tmp_path: Path, clock: Clock) -> None:
    budget = start_session(tmp_path, 1.0, clock)
    for _ in range(100):
        clock.time += 1
        budget.beat()
    clock.time += HEARTBEAT_SECONDS - 1  # killed here
    again = start_session(tmp_path, 1.0, clock)
    assert 100 - HEARTBEAT_SECONDS < again.used_before <= 100


def test_heartbeats_are_not_written_all_the_time(tmp_path: Path, clock: Clock) -> None:
    budget = start_session(tmp_path, 1.0, clock)
    before = (tmp_path / CLOCK_FILE).read_text()
    clock.time += HEARTBEAT_SECONDS - 0.5
    budget.beat()
    assert (tmp_path / CLOCK_FILE).read_text() == before
    clock.time += 1
    budget.beat()
    assert (tmp_path / CLOCK_FILE).read_text() != before


def test_a_finished_job_is_followed_by_a_fresh_one(tmp_path: Path, clock: Clock) -> None:
    budget = start_session(tmp_path, 1.0, clock)
    clock.time += 1000
    budget.beat(force=True)
    assert finish_session(tmp_path) == 1000
    assert json.loads((tmp_path / CLOCK_FILE).read_text())["finished"]
    assert start_session(tmp_path, 1.0, clock).used() == 0


def test_a_stage_joins_the_running_session(tmp_path: Path, clock: Clock) -> None:
    first = start_session(tmp_path, 1.0, clock)
    clock.time += 100
    joined = open_budget(tmp_path, 1.0, clock)
    assert (joined.used(), joined.deadline) == (first.used(), first.deadline)


def test_a_stage_run_by_hand_starts_a_session(tmp_path: Path, clock: Clock) -> None:
    assert open_budget(tmp_path, 2.0, clock).remaining() == 7200
    finish_session(tmp_path)
    clock.time += 10
    assert open_budget(tmp_path, 2.0, clock).remaining() == 7200


def test_a_clock_that_stood_for_an_hour_is_no_running_session(tmp_path: Path, clock: Clock) -> None:
    start_session(tmp_path, 2.0, clock)
    clock.time += 3601
    assert open_budget(tmp_path, 2.0, clock).remaining() == 7200


def test_the_deadline_of_the_machine_wins_when_it_is_earlier(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEADLINE_VARIABLE, str(clock.time + 60))
    assert start_session(tmp_path, 1.0, clock).remaining() == 60
    assert open_budget(tmp_path, 1.0, clock).remaining() == 60
    monkeypatch.setenv(DEADLINE_VARIABLE, str(clock.time + 99_999))
    assert start_session(tmp_path, 1.0, clock).remaining() == 3600


def test_the_whole_job_is_allowed_what_the_machine_gives(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start_session(tmp_path, 10.0, clock)
    assert first.allowed() == 36_000
    clock.time += 1000
    first.beat(force=True)
    clock.time += 500
    assert start_session(tmp_path, 10.0, clock).allowed() == 36_000
    monkeypatch.setenv(DEADLINE_VARIABLE, str(clock.time + 3600))
    start_session(tmp_path, 10.0, clock)
    clock.time += 60
    assert open_budget(tmp_path, 10.0, clock).allowed() == 1000 + 3600


def test_another_job_has_a_clock_of_its_own(tmp_path: Path, clock: Clock) -> None:
    first = start_session(tmp_path, 1.0, clock, job="A")
    clock.time += 3240
    first.beat(force=True)
    assert unfinished_job(tmp_path) == "A"
    assert open_budget(tmp_path, 1.0, clock).used() == 3240
    assert start_session(tmp_path, 1.0, clock, job="A").used() == 3240
    assert start_session(tmp_path, 1.0, clock, job="B").used() == 0
    finish_session(tmp_path)
    assert unfinished_job(tmp_path) == ""


def test_whose_clock_it_is_outlives_the_stages(tmp_path: Path, clock: Clock) -> None:
    start_session(tmp_path, 1.0, clock, job="A")
    clock.time += 600
    open_budget(tmp_path, 1.0, clock).beat(force=True)
    clock.time += 4000  # a stage by hand, an hour later: it goes on with A's clock
    assert open_budget(tmp_path, 1.0, clock).used() == 600
    assert unfinished_job(tmp_path) == "A"


def test_time_that_nobody_put_a_name_to_counts(tmp_path: Path, clock: Clock) -> None:
    first = start_session(tmp_path, 1.0, clock)
    clock.time += 600
    first.beat(force=True)
    record = json.loads((tmp_path / CLOCK_FILE).read_text())
    del record["job"]  # as earlier releases wrote it
    (tmp_path / CLOCK_FILE).write_text(json.dumps(record))
    assert open_budget(tmp_path, 1.0, clock).used() == 600
    assert start_session(tmp_path, 1.0, clock, job="A").used() == 600
    assert unfinished_job(tmp_path) == "A"


def test_finishing_what_never_started_is_nothing(tmp_path: Path) -> None:
    assert finish_session(tmp_path) == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("19:58:03", 71883),
        ("Time remaining: 00:10:00\n", 600),
        ("71883", 71883),
        ("71883.5 seconds", 71883.5),
        ("19h 58m 3s", 71883),
        ("1h30m", 5400),
        ("2 hours 5 minutes", 7500),
        ("1 day, 2 hours", 93600),
        ("45 min left", 2700),
        ('{"remaining_seconds": 9}', 9),
        ('{"elapsed_seconds": 12, "remaining_seconds": 100}', 100),
        ("elapsed 00:10:00, remaining: 19:50:00", 71400),
        ("used 3h, left 5h", 18000),
        ("19:50:00 left of 20:00:00", 71400),
        ('{"remaining_minutes": 90}', 5400),
        ('{"remaining_hours": 9.5}', 34200),
        ('{"total_minutes": 60, "minutes_left": 10}', 600),
        ("remaining_minutes=90", 5400),
        ("hoursLeft: 2", 7200),
        ("remaining (minutes): 90", 5400),
        ("Minutes remaining: 90", 5400),
        ("left=90m total=120m", 5400),
        ("Time left: 10 min of 60 min", 600),
        ("Time left: 10/60 min", 600),
        ("10 of 60 minutes left", 600),
        ("10 min left of total 60 min", 600),
        ("10 min left / 60 min", 600),
        ("60 min total, 10 min left", 600),
        ("Total: 60 min\nLeft: 10 min", 600),
        ("Time left: 45:30 / 60:00", 2730),
        ("10 min remaining (elapsed: 50 min)", 600),
        ("elapsed 00:10:00, remaining time: 19:50:00", 71400),
        ("3h left, 5h used", 10800),
        ("Time remaining in this sandbox is 5 hours", 18000),
        ("2 days, 03:00:00 remaining", 183600),
        ("1-02:03:04", 93784),
        ("0:10:00.500000", 600.5),
        ("45:30", 2730),
        ("remaining: -120", 0),
        ("remaining: -00:10:00", 0),
        ("-1 day, 23:59:50", 0),
        ("used 3h of 20h", None),
        ("remaining: unlimited, elapsed 5 s", None),
        ("remaining: null", None),
        ("no limit", None),
        ("", None),
    ],
)
def test_durations_are_read_in_the_usual_forms(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


def write_timer(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    timer = folder / "sandbox-timer"
    timer.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    timer.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


def test_the_machines_timer_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_timer(tmp_path, monkeypatch, "echo 'remaining: 01:00:05'")
    assert machine_remaining() == 3605
    assert machine_remaining("no-such-timer-here") is None


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["echo 'error 404'", "exit 3"], "status 3 and said 'error 404'"),
        (["echo broken >&2", "exit 1"], "status 1 and said 'broken'"),
        (["echo no limit"], "status 0 and said 'no limit'"),
        (["printf '\\377'"], "status 0"),
    ],
)
def test_a_timer_that_tells_nothing_is_said_and_passed_over(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: list[str],
    said: str,
) -> None:
    write_timer(tmp_path, monkeypatch, *lines)
    assert machine_remaining() is None
    error = capsys.readouterr().err
    assert said in error
    assert "params.yaml rules" in error
