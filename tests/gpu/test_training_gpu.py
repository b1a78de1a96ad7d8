"""One CUDA device: precisions against the CPU reference, kill and resume, decoding.

make test MARKERS=gpu TESTS=tests/gpu
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.base.loading import load_base
from pipeline.learning.attention import DOCUMENTS, register
from pipeline.learning.checkpoint import as_rows, newest_complete
from pipeline.learning.data import PackedData
from pipeline.learning.job import Job
from pipeline.learning.loss import DocumentLoss
from pipeline.learning.model import build
from pipeline.learning.optimizers import make_optimizer
from pipeline.learning.step import FIRST_SCALE, Scaler, Stepper
from pipeline.learning.supervisor import Supervisor
from tests.support.packed import make_job, write_packed
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[2]

PRECISIONS: dict[str, dict[str, Any]] = {
    "bfloat16": {"compute_dtype": "bfloat16", "base_dtype": "bfloat16"},
    "float16": {"compute_dtype": "float16", "base_dtype": "float16"},
    "nf4": {"compute_dtype": "bfloat16", "base_dtype": "bfloat16", "quantization": "nf4"},
    "nf4-fp16": {  # what a card of capability 7.5 gets
        "compute_dtype": "float16",
        "base_dtype": "float16",
        "quantization": "nf4",
        "gradient_checkpointing": True,
    },
    "recomputed": {
        "compute_dtype": "bfloat16",
        "base_dtype": "bfloat16",
        "gradient_checkpointing": True,
    },
}


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp("gpu") / "base", request.param)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    return write_packed(tmp_path / "data")


def make_stepper(job: Job, device: str) -> Stepper:
    model = build(job.base, job.params, job.training, device)
    parameters = list(model.masters.values())
    half = job.training["compute_dtype"] == "float16"
    return Stepper(
        job,
        DocumentLoss(model.causal, job.training["loss_chunk_positions"]),
        PackedData(job.data),
        parameters,
        make_optimizer(model.masters, job.params, torch.device(device)),
        device=torch.device(device),
        rank=0,
        ranks=1,
        scaler=Scaler(FIRST_SCALE if half else 1.0),
        poll=lambda: False,
    )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_ten_steps_follow_the_cpu_reference(base: Path, data: Path, precision: str) -> None:
    reference = make_stepper(make_job(base, data, make_params()), "cpu")
    plan = {"device": "cuda", **PRECISIONS[precision]}
    stepper = make_stepper(make_job(base, data, make_params(), **plan), "cuda")
    tolerance = 0.1 if "nf4" in precision else 0.01
    for step in range(10):
        expected, found = reference.run(step, 0.01), stepper.run(step, 0.01)
        assert found.loss == pytest.approx(expected.loss, rel=tolerance)
    assert {p.dtype for p in stepper.parameters} == {torch.float32}


def test_two_cards_follow_one(base: Path, data: Path) -> None:
    settings = {"train.steps": 12, "train.checkpoint_every_steps": 4}
    plan = {"device": "cuda", "micro_batch_sequences": 1, **PRECISIONS["bfloat16"]}
    losses = []
    for ranks in (1, min(2, torch.cuda.device_count())):
        job = make_job(base, data, make_params(**settings), ranks=ranks, **plan)
        Supervisor(job, lambda _: None, lambda: None).run(time.time() + 600)
        losses.append([row["loss"] for row in as_rows(job.steps_file)])
        job.run.rename(f"ranks-{len(losses)}")
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
    assert len(losses[1]) == 12


@pytest.mark.parametrize("lengths", [(1, 127, 128, 129), (5, 300, 64), (512,), (2,) * 40])
def test_document_attention_equals_an_eager_float64_reference(
    base: Path, lengths: tuple[int, ...]
) -> None:
    register()
    tokens = torch.randint(3, 400, (sum(lengths),), generator=torch.Generator().manual_seed(1))
    eager = load_base(base, dtype="float32", device="cuda", attention="eager").double()
    packed = load_base(base, dtype="float32", device="cuda", attention=DOCUMENTS)
    positions = torch.cat([torch.arange(n) for n in lengths])
    with torch.no_grad():
        logits = packed(
            input_ids=tokens[None].cuda(),
            position_ids=positions[None].cuda(),
            use_cache=False,
            document_lengths=lengths,
        ).logits[0]
        for found, document in zip(logits.split(lengths), tokens.split(lengths), strict=True):
            alone = eager(input_ids=document[None].cuda(), use_cache=False).logits[0]
            torch.testing.assert_close(found.double(), alone, atol=2e-3, rtol=1e-3)


def test_a_killed_run_goes_on_with_the_same_losses(base: Path, data: Path) -> None:
    settings = {"train.steps": 30, "train.checkpoint_every_steps": 5}
    job = make_job(base, data, make_params(**settings), device="cuda", **PRECISIONS["bfloat16"])
    Supervisor(job, lambda _: None, lambda: None).run(time.time() + 600)
    unbroken = [row["loss"] for row in as_rows(job.steps_file)]
    job.run.rename("unbroken")
    job = make_job(base, data, make_params(**settings), device="cuda", **PRECISIONS["bfloat16"])
    supervisor = Supervisor(job, lambda _: None, lambda: None)

    def kill_once() -> None:
        if len(as_rows(job.steps_file)) >= 8 and not (job.run / "killed").exists():
            (job.run / "killed").touch()
            supervisor.ranks[0].kill()

    supervisor.beat = kill_once
    with pytest.raises(RuntimeError, match="-9"):
        supervisor.run(time.time() + 600)
    assert newest_complete(job.run, print) is not None
    Supervisor(job, lambda _: None, lambda: None).run(time.time() + 600)
    resumed = [row["loss"] for row in as_rows(job.steps_file)]
    assert resumed == pytest.approx(unbroken, rel=1e-3)
