"""Figures of a step: right, in every place that shows them, and none twice after a kill."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from pipeline.base.fingerprint import model_shape
from pipeline.base.flops import useful_flops
from pipeline.learning.checkpoint import TrainState, as_rows
from pipeline.learning.job import Job
from pipeline.learning.record import COLUMNS
from pipeline.learning.step import StepResult
from pipeline.learning.telemetry import LIVE, PLOTS, Telemetry
from tests.support.packed import make_job, write_packed
from tests.support.settings import make_params

CPU = torch.device("cpu")
RESULT = StepResult(2.5, 0.4, 1.5, tokens=1000, trained_tokens=400, squared_lengths=30_000)


@pytest.fixture
def job_for(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Job]:
    monkeypatch.chdir(tmp_path)
    data = write_packed(tmp_path / "data")
    return lambda **plan: make_job(tiny_base, data, make_params(), **plan)


def state(step: int) -> TrainState:
    return TrainState(step, step * 1000, step * 400, step * 2.0, 1.0, 0)


def tell(telemetry: Telemetry, *steps: int) -> None:
    for step in steps:
        telemetry.add(state(step), RESULT, 1e-3, 2.0, 99.0)


def plotted() -> list[dict[str, str]]:
    with PLOTS.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_row_holds_speed_and_share_of_the_peak(job_for: Callable[..., Job]) -> None:
    job = job_for(peak_tflops=0.001, ranks=2)
    telemetry = Telemetry(job, CPU, 5000, print)
    telemetry.begin(0)
    tell(telemetry, 1)
    (row,) = as_rows(job.steps_file)
    assert tuple(row) == COLUMNS
    assert row["tokens_per_second"] == 500.0
    flops = useful_flops(
        model_shape(job.base), 5000, tokens=1000, trained=400, squared_lengths=30_000
    )
    assert row["mfu"] == round(flops / 2.0 / 2e9, 4) > 0
    assert row["budget_left_seconds"] == 99.0
    assert plotted()[0]["mfu"] == str(row["mfu"])


def test_without_a_known_peak_there_is_no_share(job_for: Callable[..., Job]) -> None:
    job = job_for()
    telemetry = Telemetry(job, CPU, 5000, print)
    telemetry.begin(0)
    tell(telemetry, 1)
    assert as_rows(job.steps_file)[0]["mfu"] is None
    assert plotted()[0]["mfu"] == ""


def test_steps_that_are_made_again_stand_once_in_every_file(job_for: Callable[..., Job]) -> None:
    job = job_for()
    first = Telemetry(job, CPU, 5000, print)
    first.begin(0)
    tell(first, 1, 2, 3, 4)
    again = Telemetry(job, CPU, 5000, print)
    again.begin(2)
    tell(again, 3)
    assert [row["step"] for row in as_rows(job.steps_file)] == [1, 2, 3]
    assert [row["step"] for row in plotted()] == ["1", "2", "3"]


def test_without_dvclive_one_line_says_so(job_for: Callable[..., Job]) -> None:
    log: list[str] = []
    sys.modules["dvclive"] = None  # type: ignore[assignment]
    try:
        Telemetry(job_for(), CPU, 5000, log.append).close(0)
    finally:
        del sys.modules["dvclive"]
    assert log == [f"dvclive is not installed: figures go to {PLOTS} and steps.jsonl alone"]


class FakeLive:
    """What this project uses of dvclive.Live."""

    def __init__(self, folder: str, **settings: Any) -> None:
        self.folder, self.settings = folder, settings
        self.step, self.ended = 0, False
        self.seen: list[tuple[int, str, float]] = []
        made.append(self)

    def log_metric(self, name: str, value: float) -> None:
        self.seen.append((self.step, name, value))

    def next_step(self) -> None:
        self.step += 1

    def end(self) -> None:
        self.ended = True


made: list[FakeLive] = []


def test_dvclive_gets_every_figure_under_its_step(
    job_for: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("dvclive")
    module.Live = FakeLive  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dvclive", module)
    job = job_for()
    telemetry = Telemetry(job, CPU, 5000, print)
    telemetry.begin(0)
    tell(telemetry, 1, 2)
    telemetry = Telemetry(job, CPU, 5000, print)
    telemetry.begin(1)
    tell(telemetry, 2)
    telemetry.close(2)
    live = made[-1]
    assert live.folder == str(LIVE)
    assert live.settings == {"save_dvc_exp": False, "dvcyaml": None, "report": None}
    assert [step for step, name, _ in live.seen if name == "loss"] == [1, 2]
    assert {name for _, name, _ in live.seen} == set(COLUMNS) - {"step", "mfu"}
    assert live.ended


def test_the_progress_line_says_where_it_stands(
    job_for: Callable[..., Job], capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry = Telemetry(job_for(), CPU, 5000, print)
    telemetry._progress.every = 0.0
    telemetry._progress.stream = sys.stderr
    telemetry.show(RESULT, 4, 10, [3.0, 2.0, 9.0], time.time() + 65.0)
    said = capsys.readouterr().err
    assert "1,000 tokens" in said
    assert "step 4/10 · loss 2.5000 · ETA 18s · budget left 1m0" in said
