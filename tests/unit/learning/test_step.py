"""A step's update does not depend on how it is cut up, and a bad step leaves no trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipeline.learning.data import PackedData
from pipeline.learning.job import Job
from pipeline.learning.loss import DocumentLoss
from pipeline.learning.model import build
from pipeline.learning.optimizers import make_optimizer
from pipeline.learning.step import (
    STEADY_STEPS,
    NonFinite,
    Scaler,
    Stepper,
    Stopped,
)
from tests.support.packed import TWO_STAGES, TWO_TIERS, make_job, write_packed
from tests.support.settings import make_params

RANK_SCRIPT = """
import json, sys
import torch
from accelerate import PartialState
from pathlib import Path
from pipeline.learning.job import read_job
from tests.unit.learning.test_step import make_stepper

state = PartialState(cpu=True)
torch.set_num_threads(1)
stepper = make_stepper(read_job(Path(sys.argv[1])), rank=state.process_index, ranks=2)
result = stepper.run(0, 0.01)
if state.is_main_process:
    first = next(p for p in stepper.parameters if p.grad is not None and float(p.grad.abs().sum()))
    print(json.dumps([result.loss, result.grad_norm, first.grad.double().sum().item()]))
"""


@pytest.fixture
def job_for(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Job]:
    monkeypatch.chdir(tmp_path)
    data = write_packed(tmp_path / "data")

    def make(settings: dict[str, Any] | None = None, **plan: Any) -> Job:
        return make_job(tiny_base, data, make_params(**(settings or {})), **plan)

    return make


def make_stepper(
    job: Job, *, rank: int = 0, ranks: int = 1, scale: float = 1.0, stop: bool = False
) -> Stepper:
    model = build(job.base, job.params, job.training, "cpu")
    parameters = list(model.masters.values())
    device = torch.device("cpu")
    return Stepper(
        job,
        DocumentLoss(model.causal, job.training["loss_chunk_positions"]),
        PackedData(job.data),
        parameters,
        make_optimizer(model.masters, job.params, device),
        device=device,
        rank=rank,
        ranks=ranks,
        scaler=Scaler(scale),
        poll=lambda: stop,
    )


def figures(stepper: Stepper) -> list[float]:
    result = stepper.run(0, 0.01)
    first = next(p for p in stepper.parameters if p.grad is not None and p.grad.abs().sum() > 0)
    assert first.grad is not None
    return [result.loss, result.grad_norm, float(first.grad.double().sum())]


def test_loss_and_gradient_do_not_depend_on_the_micro_batch(job_for: Callable[..., Job]) -> None:
    cuts = [figures(make_stepper(job_for(micro_batch_sequences=m))) for m in (1, 2, 4)]
    assert cuts[1] == pytest.approx(cuts[0], abs=1e-5)
    assert cuts[2] == pytest.approx(cuts[0], abs=1e-5)


def test_every_stage_trains_its_bins_in_as_many_passes(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = write_packed(tmp_path / "data", buckets=TWO_TIERS)
    job = make_job(
        tiny_base, data, make_params(), stages=TWO_STAGES, micro_batch_sequences=2, ranks=1
    )
    stepper = make_stepper(job)
    passes: list[list[int]] = []
    forward = stepper.loss.forward

    def spy(*arguments: Any) -> Any:
        passes[-1].append(arguments[3].tokens)
        return forward(*arguments)

    stepper.loss.forward = spy  # type: ignore[method-assign]
    for step in range(4):
        passes.append([])
        result = stepper.run(step, 0.01, [0, 2])
        slots = stepper.curriculum.slots(step, [0, 2])
        bins = np.concatenate([slot.bins for slot in slots])
        assert len(slots) == (8, 8, 4, 4)[step]
        assert len(passes[-1]) == 2
        assert max(passes[-1]) <= 128
        assert sum(passes[-1]) == result.tokens == stepper.data.tokens_in(bins)
        assert result.trained_tokens == stepper.data.trained_tokens(bins)
    assert stepper.curriculum.slots(0, [0, 2])[0].bins.size == 1


def test_two_ranks_make_the_same_update_as_one(job_for: Callable[..., Job], tmp_path: Path) -> None:
    job = job_for(micro_batch_sequences=1, ranks=2)
    script = tmp_path / "ranks.py"
    script.write_text(RANK_SCRIPT)
    root = Path(__file__).resolve().parents[3]
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launcher.append("--nproc-per-node=2")
    done = subprocess.run(
        [*launcher, str(script), str(job.run.resolve())],
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    both = json.loads(done.stdout.strip().splitlines()[-1])
    assert both == pytest.approx(figures(make_stepper(job)), abs=1e-5)


def test_loss_is_the_mean_over_trained_tokens_not_over_micro_batches(
    job_for: Callable[..., Job],
) -> None:
    stepper = make_stepper(job_for(micro_batch_sequences=1))
    parts: list[tuple[float, int]] = []
    forward = stepper.loss.forward

    def spy(*arguments: Any) -> Any:
        summed, hits = forward(*arguments)
        parts.append((float(summed.detach()), int(arguments[2].numel())))
        return summed, hits

    stepper.loss.forward = spy  # type: ignore[method-assign]
    result = stepper.run(0, 0.01)
    assert len({count for _, count in parts}) > 1, (
        "micro-batches must differ for this to prove much"
    )
    weighted = sum(s for s, _ in parts) / sum(n for _, n in parts)
    assert result.loss == pytest.approx(weighted)


def snapshot(stepper: Stepper) -> list[torch.Tensor]:
    return [p.detach().clone() for p in stepper.parameters]


def assert_untouched(stepper: Stepper, before: list[torch.Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(before, snapshot(stepper), strict=True))
    assert not stepper.optimizer.tensors()


def poison(stepper: Stepper) -> None:
    with torch.no_grad():
        weight = stepper.loss.head.weight
        weight.fill_(float("inf"))


def test_a_non_finite_loss_stops_before_the_update(job_for: Callable[..., Job]) -> None:
    stepper = make_stepper(job_for())
    poison(stepper)
    before = snapshot(stepper)
    with pytest.raises(NonFinite):
        stepper.run(0, 0.01)
    assert_untouched(stepper, before)


def test_a_stop_request_throws_the_step_away(job_for: Callable[..., Job]) -> None:
    stepper = make_stepper(job_for(), stop=True)
    before = snapshot(stepper)
    with pytest.raises(Stopped):
        stepper.run(0, 0.01)
    assert_untouched(stepper, before)


def test_the_loss_scale_does_not_change_the_update(job_for: Callable[..., Job]) -> None:
    plain, scaled = make_stepper(job_for()), make_stepper(job_for(), scale=1024.0)
    plain.run(0, 0.01)
    scaled.run(0, 0.01)
    for a, b in zip(snapshot(plain), snapshot(scaled), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def test_an_overflow_halves_the_scale_and_repeats_until_it_cannot() -> None:
    scaler = Scaler(4.0)
    scaler.overflow()
    scaler.overflow()
    assert scaler.scale == 1.0
    with pytest.raises(NonFinite):
        scaler.overflow()


def test_a_scale_grows_after_many_good_steps_and_one_stays_one() -> None:
    grown, fixed = Scaler(1.0, grows=True), Scaler(1.0)
    for _ in range(STEADY_STEPS):
        grown.completed()
        fixed.completed()
    assert grown.scale == 2.0
    assert fixed.scale == 1.0


def test_clipping_bounds_the_gradient(job_for: Callable[..., Job]) -> None:
    stepper = make_stepper(job_for({"train.clip_norm": 0.01}))
    result = stepper.run(0, 0.0)
    norms = [float(p.grad.norm()) for p in stepper.parameters if p.grad is not None]
    assert result.grad_norm > 0.01
    assert sum(n * n for n in norms) ** 0.5 <= 0.0101


def test_dropout_repeats_with_the_step_and_changes_with_it(job_for: Callable[..., Job]) -> None:
    job = job_for({"train.dropout": 0.5})
    runs = []
    for step in (0, 0, 3):
        stepper = make_stepper(job)
        with torch.no_grad():
            for parameter in stepper.parameters:
                parameter.add_(0.01)
        torch.manual_seed(len(runs))
        runs.append(stepper.run(step, 0.0).loss)
    assert runs[0] == runs[1] != runs[2]


def test_half_precision_forward_stays_near_the_reference(job_for: Callable[..., Job]) -> None:
    reference = figures(make_stepper(job_for()))[0]
    halved = figures(make_stepper(job_for(compute_dtype="bfloat16")))[0]
    assert halved == pytest.approx(reference, rel=0.02)
    assert halved != reference
