"""A long accumulation is left at the next micro-batch, with nothing updated.

The loss is a sum over one parameter: what is under test is the order of things.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.learning.data import PackedData
from pipeline.learning.job import Job
from pipeline.learning.step import Scaler, Stepper, Stopped
from tests.support.packed import make_job, write_packed
from tests.support.settings import make_params

MICRO_BATCHES = 48


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.chdir(tmp_path)
    data = write_packed(tmp_path / "data")
    plan = {"micro_batch_sequences": 1, "sequences_per_step": MICRO_BATCHES}
    return make_job(tmp_path / "base", data, make_params(), **plan)


class Counted:
    """A loss of one parameter, and an optimizer that must not be asked to step."""

    def __init__(self) -> None:
        self.parameter = torch.nn.Parameter(torch.ones(3))
        self.passes, self.updates = 0, 0

    def __call__(self, *_batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        self.passes += 1
        return self.parameter.sum(), torch.zeros(())

    def zero_grad(self, set_to_none: bool) -> None:
        self.parameter.grad = None

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name == "step":
            self.updates += 1
        return lambda *_: None


def stepper_of(job: Job, counted: Any, poll: Callable[[], bool]) -> Stepper:
    return Stepper(
        job,
        counted,
        PackedData(job.data),
        [counted.parameter],
        counted,
        device=torch.device("cpu"),
        rank=0,
        ranks=1,
        scaler=Scaler(1.0),
        poll=poll,
    )


@pytest.mark.parametrize("asked_after", [0, 1, 17, MICRO_BATCHES - 1])
def test_the_pass_after_a_request_is_not_made(job: Job, asked_after: int) -> None:
    counted = Counted()
    stepper = stepper_of(job, counted, lambda: counted.passes >= asked_after)
    with pytest.raises(Stopped):
        stepper.run(0, 0.01)
    assert counted.passes == asked_after
    assert counted.updates == 0
    assert torch.equal(counted.parameter, torch.ones(3))


def test_a_request_after_the_last_pass_lets_the_step_end(job: Job) -> None:
    counted = Counted()
    stepper = stepper_of(job, counted, lambda: counted.passes >= MICRO_BATCHES)
    stepper.run(0, 0.01)
    assert counted.passes == MICRO_BATCHES
    with pytest.raises(Stopped):
        stepper.run(1, 0.01)
    assert counted.passes == MICRO_BATCHES
