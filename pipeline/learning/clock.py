"""Keeps training inside its time: how many steps the clock still allows. No torch.

Used by worker.py's main process before every step. Reads and appends to
runs/<key>/timings.jsonl, what saving (by the worker) and handing out (by the
supervisor) took on this machine, so that the time kept for them is a measured one,
also after a restart. What is decided here is journalled by the worker; schedule.py
turns the journal into learning rates.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.base.artifacts import dump_json
from pipeline.base.params import TrainParams
from pipeline.base.progress import duration
from pipeline.learning.checkpoint import as_rows
from pipeline.learning.schedule import Replan, replanned_total, total_steps

MEASURED_STEPS = 3
"""Steps that are timed before the clock may change the plan."""
REPLAN_EVERY_SECONDS = 30.0
REPLAN_EVERY_SHARE = 0.05
"""Of the time left, when that is less: a change of speed near the end must not end a
run in the middle of its decay."""
REMEMBERED_STEPS = 21
"""Steps whose median is the pace."""
REMEMBERED_SAVES = 5
SAVE_BYTES_PER_SECOND = 0.1e9
"""Cautious rate of writing, flushing and hashing a checkpoint, until one is measured."""
SAVE_MARGIN = 1.5
"""The last save and hand-out may take so much longer than the slowest of the last ones."""
SAVE, HAND_OUT = "save", "hand_out"


def note_timing(run: Path, what: str, seconds: float) -> None:
    """Append what a save or a hand-out took to the run's timings.jsonl."""
    with (run / "timings.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(dump_json({"what": what, "seconds": round(seconds, 3)}) + "\n")


def slowest(run: Path, what: str) -> float | None:
    """Seconds of the slowest of the last ones of this kind; None without any."""
    rows = [row["seconds"] for row in as_rows(run / "timings.jsonl") if row["what"] == what]
    return max(rows[-REMEMBERED_SAVES:], default=None)


class Clock:
    """The pace of this attempt, and when the remaining steps must be planned anew.

    Args:
        run: the run's folder.
        most_steps: steps that the recipe allows however much time there is.
        stop_at: epoch seconds at which training must have ended.
        reserve: seconds after `stop_at` that are kept for the last save and hand-out.
        save_bytes: size of a checkpoint.
        log: takes one line.
        now: epoch seconds; tests inject their own.
    """

    def __init__(
        self,
        run: Path,
        params: TrainParams,
        *,
        most_steps: int,
        stop_at: float,
        reserve: float,
        save_bytes: int,
        log: Callable[[str], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._run, self._params, self._most_steps = run, params, most_steps
        self._stop_at, self._reserve, self._save_bytes = stop_at, reserve, save_bytes
        self._log, self._now = log, now
        self._replanned = now()
        self._steps = 0
        self._said = 0.0
        self.step_seconds: list[float] = []
        """Of the last steps of this attempt, oldest first, saves not included."""
        self.ends_at = stop_at
        """Epoch seconds at which the last step must have ended, saving considered."""
        self._save_seconds = 0.0
        self.look_at_saves()

    def took(self, seconds: float) -> None:
        """Count one more step."""
        self._steps += 1
        self.step_seconds = [*self.step_seconds[1 - REMEMBERED_STEPS :], seconds]

    def left(self) -> float:
        """Seconds until training must end."""
        return self.ends_at - self._now()

    def saved(self, seconds: float) -> None:
        """Note what a save took, and end earlier if the reserve does not cover the last one."""
        note_timing(self._run, SAVE, seconds)
        self.look_at_saves()

    def look_at_saves(self) -> None:
        """Set `ends_at` by what saving and handing out took so far."""
        measured = slowest(self._run, SAVE)
        guess = self._save_bytes / SAVE_BYTES_PER_SECOND
        self._save_seconds = guess if measured is None else measured
        needed = SAVE_MARGIN * (self._save_seconds + (slowest(self._run, HAND_OUT) or 0.0))
        beyond = max(0.0, needed - self._reserve)
        self.ends_at = self._stop_at - beyond
        if beyond > max(1.0, 1.1 * self._said):
            self._said = beyond
            self._log(
                f"the last save and hand-out may take {duration(needed)}, the reserve keeps "
                f"{duration(self._reserve)} for them: training ends {duration(beyond)} earlier"
            )

    def pace(self) -> float:
        """Seconds a step, its share of the saves included; 0 before the first one."""
        if not self.step_seconds:
            return 0.0
        step = statistics.median(self.step_seconds)
        every = self._params.checkpoint_every_minutes * 60
        by_time = step * self._save_seconds / every
        steps = self._params.checkpoint_every_steps
        return step + max(by_time, self._save_seconds / steps if steps else 0.0)

    def decide(self, step: int, journal: Sequence[Replan]) -> tuple[int, int]:
        """Steps of the run that the clock allows, and journal entries that stay.

        Args:
            step: steps done.
        """
        known, kept = total_steps(journal), len(journal)
        if step >= known:
            return known, kept
        pace = self.pace()
        late = 2 * pace > self.left()
        if step < journal[-1].step:
            # A resumed run replays its journal, unless the clock has overtaken it.
            if not late:
                return known, kept
            kept = sum(entry.step <= step for entry in journal)
        if not (late or self._measurement_is_due()):
            return known, kept
        self._replanned = self._now()
        self.look_at_saves()
        if step > 0 and self.left() <= 0:
            return step, kept
        total = replanned_total(
            step=step,
            total=known,
            seconds_a_step=pace,
            seconds_left=self.left(),
            most_steps=known if self._params.steps else self._most_steps,
        )
        return total, kept

    def _measurement_is_due(self) -> bool:
        """Whether enough steps were timed, and the last look is long enough ago."""
        every = min(REPLAN_EVERY_SECONDS, REPLAN_EVERY_SHARE * self.left())
        waited = self._now() - self._replanned >= every
        return self._steps == MEASURED_STEPS or (waited and self._steps > MEASURED_STEPS)
