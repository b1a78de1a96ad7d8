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
        ("no limit", None),
        ("", None),
    ],
)
def test_durations_are_read_in_the_usual_forms(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


def test_the_machines_timer_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timer = tmp_path / "sandbox-timer"
    timer.write_text("#!/bin/sh\necho 'remaining: 01:00:05'\n")
    timer.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert machine_remaining() == 3605
    assert machine_remaining("no-such-timer-here") is None
