"""Silence is judged by what the rank itself said, and only while somebody watched."""

from __future__ import annotations

import os

import pytest

from pipeline.learning import pulse
from pipeline.learning.pulse import (
    LONGEST_LOOK,
    PULSE_VARIABLE,
    SHORTEST_SECONDS,
    START_SECONDS,
    Listener,
    Pulse,
    step_limit,
)


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    made = Listener()
    monkeypatch.setenv(PULSE_VARIABLE, str(made.writer))
    return made


def test_the_limit_follows_the_median_and_has_a_floor() -> None:
    assert step_limit([], 20.0) == step_limit([1.0, 1.0], 20.0) == START_SECONDS
    assert step_limit([1.0, 1.0, 1.0], 20.0) == SHORTEST_SECONDS
    assert step_limit([10.0, 30.0, 20.0, 900.0, 30.0], 20.0) == 600.0


def test_a_rank_is_overdue_when_it_is_silent_longer_than_it_said(listener: Listener) -> None:
    Pulse(Time())("step 7", 12.0)
    listener.look(1.0)
    assert (listener.doing, listener.limit, listener.silent) == ("step 7", 12.0, 0.0)
    for _ in range(4):
        listener.look(3.0)
    assert not listener.overdue
    listener.look(0.1)
    assert listener.overdue


def test_a_sign_ends_the_silence(listener: Listener) -> None:
    now = Time()
    say = Pulse(now)
    say("step 1", 4.0)
    listener.look(1.0)
    listener.look(3.9)
    now.at = 4.0
    say("step 1", 4.0)
    listener.look(0.2)
    listener.look(3.9)
    assert not listener.overdue


def test_time_that_nobody_watched_does_not_count(listener: Listener) -> None:
    Pulse(Time())("step 1", 60.0)
    listener.look(1.0)
    listener.look(100_000.0)
    assert listener.silent == LONGEST_LOOK
    assert not listener.overdue


def test_equal_signs_are_rare_and_another_limit_is_said_at_once(listener: Listener) -> None:
    now = Time()
    say = Pulse(now)
    for step in range(1000):
        now.at = step * 0.001
        say(f"step {step}", 120.0)
    say("saving", 900.0)
    listener.look(1.0)
    assert (listener.doing, listener.limit) == ("saving", 900.0)
    assert pulse.EVERY_SECONDS == 0.5


def test_a_supervisor_that_does_not_read_never_stops_the_rank(listener: Listener) -> None:
    say = Pulse(Time())
    for number in range(5000):
        say("x" * 60, float(number))
    listener.look(1.0)
    assert listener.silent == 0.0
    listener.started()
    listener.close()


def test_a_rank_whose_supervisor_is_gone_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener()
    kept = os.dup(listener.writer)
    monkeypatch.setenv(PULSE_VARIABLE, str(kept))
    listener.started()
    listener.close()
    Pulse(Time())("step 1", 1.0)
    os.close(kept)


def test_without_a_listener_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PULSE_VARIABLE, raising=False)
    Pulse(Time())("step 1", 1.0)
