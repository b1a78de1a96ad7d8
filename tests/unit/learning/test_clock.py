"""Training ends inside its time with the rate near zero, whatever the machine's speed does."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.base.params import TrainParams
from pipeline.learning.clock import HAND_OUT, SAVE, SAVE_MARGIN, Clock, note_timing, slowest
from pipeline.learning.schedule import Replan, learning_rate, progress, total_steps
from tests.support.settings import make_params

SAVING: dict[str, Any] = {
    "train.checkpoint_every_steps": None,
    "train.checkpoint_every_minutes": 10.0,
}
PARAMS = make_params(**{"train.steps": None, **SAVING}).train
FIXED = make_params(**{"train.steps": 5000, **SAVING}).train


@dataclass
class Machine:
    """A trainer without a model: steps and saves take the time that it is told.

    Attributes:
        durations: seconds of the steps, repeated for as long as they are needed.
    """

    run: Path
    durations: Sequence[float]
    stop_at: float
    first_total: int
    most_steps: int
    params: TrainParams = PARAMS
    save_seconds: float = 0.0
    reserve: float = 0.0
    now: float = 0.0
    step: int = 0
    journal: list[Replan] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def rate(self, step: int) -> float:
        return learning_rate(step, self.journal, peak=1.0, warmup=0.05, decay="linear")

    def attempt(self, until: int | None = None) -> None:
        """Train until the end, or until killed after so many steps."""
        self.journal = self.journal or [Replan(0, self.first_total, "plan")]
        clock = Clock(
            self.run,
            self.params,
            most_steps=self.most_steps,
            stop_at=self.stop_at,
            reserve=self.reserve,
            save_bytes=0,
            log=self.log.append,
            now=lambda: self.now,
        )
        self.clock, self.saved_at = clock, self.now
        while True:
            total, kept = clock.decide(self.step, self.journal)
            if total != total_steps(self.journal) or kept != len(self.journal):
                self.journal = [*self.journal[:kept], Replan(self.step, total, "clock")]
            if self.step in (total_steps(self.journal), until):
                break
            self._one_step(clock)
        self._save(clock)

    def _one_step(self, clock: Clock) -> None:
        seconds = self.durations[self.step % len(self.durations)]
        self.rates.append(self.rate(self.step))
        self.now, self.step = self.now + seconds, self.step + 1
        clock.took(seconds)
        if self.now - self.saved_at >= self.params.checkpoint_every_minutes * 60:
            self._save(clock)

    def _save(self, clock: Clock) -> None:
        self.now += self.save_seconds
        self.saved_at = self.now
        clock.saved(self.save_seconds)


@st.composite
def drifts(draw: st.DrawFn) -> list[float]:
    """Step times that wander between a third and three times the first one."""
    first = draw(st.floats(0.5, 30.0))
    factor, trace = 1.0, []
    for change in draw(st.lists(st.floats(-0.1, 0.1), min_size=20, max_size=200)):
        factor = min(3.0, max(1 / 3, factor * (1 + change)))
        trace.append(first * factor)
    return trace


@pytest.fixture
def run() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@settings(max_examples=60, deadline=None)
@given(drifts(), st.floats(0.2, 5.0), st.integers(60, 500))
def test_any_drift_ends_in_time_with_the_rate_at_its_end(
    trace: list[float], guess: float, steps: int
) -> None:
    """The plan was wrong by `guess`, and the speed wanders on the way."""
    budget = steps * trace[0]
    with tempfile.TemporaryDirectory() as folder:
        planned = max(1, round(steps * guess))
        machine = Machine(Path(folder), trace, budget, planned, most_steps=10 * planned)
        machine.attempt()
    longest = max(trace)
    assert machine.now <= budget + longest
    assert machine.rates[-1] <= 0.05
    assert machine.step == total_steps(machine.journal)
    for replan, before in zip(machine.journal[1:], itertools.count(1), strict=False):
        left = progress(replan.step, machine.journal[:before])
        assert progress(replan.step, machine.journal[: before + 1]) == pytest.approx(left)


@settings(max_examples=40, deadline=None)
@given(drifts(), st.data())
def test_a_killed_attempt_replays_its_journal(trace: list[float], data: st.DataObject) -> None:
    """From any earlier checkpoint: same entries, same rates, as far as the first one got."""
    budget = 200 * trace[0]
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), trace, budget, 300, most_steps=300)
        killed = data.draw(st.integers(10, 60))
        machine.attempt(until=killed)
        journal, rates = list(machine.journal), list(machine.rates)
        machine.step = data.draw(st.integers(0, machine.step))
        again, machine.rates = machine.step, rates[: machine.step]
        machine.attempt()
    assert machine.journal[: len(journal)] == journal
    last = journal[-1].step
    assert machine.rates[:last] == rates[:last]
    assert machine.now <= budget + max(trace)
    assert again <= killed


def test_a_machine_that_turns_slow_at_the_very_end_still_ends_in_time(run: Path) -> None:
    machine = Machine(run, [1.0] * 90 + [20.0] * 200, 100.0, 100, most_steps=100)
    machine.attempt()
    # The step at work may end late; no other one begins.
    assert machine.now == 110.0
    assert machine.step == total_steps(machine.journal) == 91


def test_a_short_run_that_turns_slow_half_way_ends_with_the_rate_at_its_end(run: Path) -> None:
    """Thirty seconds in all: looking again only every thirty would be never."""
    machine = Machine(run, [0.1] * 120 + [0.15] * 900, 30.0, 5000, most_steps=5000)
    machine.attempt()
    assert machine.now <= 30.15
    assert machine.rates[-1] <= 0.05
    assert len(machine.journal) <= 25


def test_a_clock_that_has_run_out_makes_one_step_of_a_fresh_run_and_none_of_another(
    run: Path,
) -> None:
    machine = Machine(run, [1.0], -5.0, 100, most_steps=100)
    machine.attempt()
    assert machine.step == 1
    machine = Machine(run, [1.0], -5.0, 100, most_steps=100, step=7)
    machine.attempt()
    assert (machine.step, total_steps(machine.journal)) == (7, 7)


def test_steady_steps_leave_one_entry_not_a_churn(run: Path) -> None:
    noise = [10.0 + 0.3 * ((7 * n) % 5 - 2) for n in range(50)]
    machine = Machine(run, noise, 40_000.0, 8000, most_steps=8000)
    machine.attempt()
    assert len(machine.journal) <= 8
    assert machine.now > 0.95 * 40_000


def test_time_of_saves_is_part_of_the_pace(run: Path) -> None:
    """Ten minutes of steps and two of saving: without it one sixth too many are planned."""
    machine = Machine(run, [10.0], 36_000.0, 4000, 4000, save_seconds=120.0, reserve=600.0)
    machine.attempt()
    assert machine.now <= 36_000 + 10 + 120
    assert machine.rates[-1] <= 0.05
    early = [entry for entry in machine.journal if entry.step <= 70]
    assert early[-1].total == pytest.approx(machine.step, rel=0.1)


def test_a_save_beyond_the_reserve_is_taken_from_training(run: Path) -> None:
    machine = Machine(run, [2.0], 3600.0, 5000, 5000, save_seconds=100.0, reserve=30.0)
    machine.attempt()
    # The last save is over before the reserve ends.
    assert machine.now <= 3600 + 30
    assert any("training ends" in line and "earlier" in line for line in machine.log)
    assert machine.rates[-1] <= 0.05


def test_a_reserve_that_covers_the_save_takes_nothing(run: Path) -> None:
    machine = Machine(run, [2.0], 3600.0, 5000, 5000, save_seconds=10.0, reserve=300.0)
    machine.attempt()
    assert machine.clock.ends_at == 3600.0
    assert machine.log == []


def test_handing_out_counts_and_is_remembered_after_a_restart(run: Path) -> None:
    note_timing(run, HAND_OUT, 40.0)
    note_timing(run, SAVE, 20.0)
    machine = Machine(run, [2.0], 3600.0, 20, 20, reserve=30.0)
    machine.attempt(until=0)
    assert machine.clock.ends_at <= 3600 - (SAVE_MARGIN * 60 - 30) + 1e-6


def test_the_slowest_of_the_last_ones_counts(run: Path) -> None:
    assert slowest(run, SAVE) is None
    for seconds in (90.0, 1.0, 2.0, 5.0, 3.0, 1.0):
        note_timing(run, SAVE, seconds)
    assert slowest(run, SAVE) == 5.0


def test_fixed_steps_are_cut_but_never_grown(run: Path) -> None:
    machine = Machine(run, [0.1], 36_000.0, 50, most_steps=5000, params=FIXED)
    machine.attempt()
    assert machine.step == 50
