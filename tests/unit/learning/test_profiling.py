"""The profiler records the steps it was asked for, after the first ones, and else nothing."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from pipeline.learning.profiling import SKIPPED_STEPS, StepProfiler

CPU = torch.device("cpu")


def work(step: int) -> None:
    with torch.profiler.record_function(f"work of step {step}"):
        torch.ones(8, 8) @ torch.ones(8, 8)


def test_the_asked_steps_are_in_the_trace_and_the_table(tmp_path: Path) -> None:
    log: list[str] = []
    profiler = StepProfiler(2, tmp_path / "profile", CPU, log.append)
    for step in range(8):
        work(step)
        profiler.step_done()
    profiler.close()
    first = SKIPPED_STEPS + 1
    events = json.loads((tmp_path / "profile/trace.json").read_text())["traceEvents"]
    recorded = {event.get("name") for event in events}
    expected = {f"work of step {step}" for step in (first, first + 1)}
    assert {name for name in recorded if str(name).startswith("work of")} == expected
    assert "aten::mm" in (tmp_path / "profile/top.txt").read_text()
    assert len(log) == 1


def test_without_steps_nothing_is_written(tmp_path: Path) -> None:
    profiler = StepProfiler(0, tmp_path / "profile", CPU, print)
    profiler.step_done()
    profiler.close()
    assert not (tmp_path / "profile").exists()


def test_an_attempt_that_ends_early_leaves_what_it_has(tmp_path: Path) -> None:
    profiler = StepProfiler(50, tmp_path / "profile", CPU, lambda _: None)
    for step in range(SKIPPED_STEPS + 2):
        work(step)
        profiler.step_done()
    profiler.close()
    profiler.close()
    assert (tmp_path / "profile/trace.json").is_file()
