"""A base spread over two ranks learns what a whole base learns.

Two processes do all that needs ranks, once for this file; what they found is compared here
with one rank that holds the whole base.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.distributed.tensor import DTensor

from pipeline.base.artifacts import sha256_file
from pipeline.base.errors import UserError
from pipeline.base.loading import load_base
from pipeline.learning import model as adapter
from pipeline.learning import sharded
from pipeline.learning.compiled import compile_layers, decoder_layers
from pipeline.learning.job import Job, read_job
from pipeline.learning.loss import DocumentLoss
from pipeline.learning.optimizers import make_optimizer
from tests.support.closure import ROOT
from tests.support.tiny import SIZES, write_tiny_base
from tests.unit.learning.test_leaks import (
    BINS,
    job_of,
    model_of,
    require_same,
    update_by_step,
    update_of_the_model,
)

WEIGHTS = "model.safetensors"
UNEVEN = 127
"""Width of an MLP whose rows two ranks cannot share equally."""
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "kept": ("llama", {}),
    "recomputed": ("qwen3", {"gradient_checkpointing": True}),
    "compiled": ("qwen3", {}),
}
"""Base (llama's tiny one has tied embeddings) and plan of each job."""


class CountedFile:
    """A safetensors file that counts the elements that are read from it."""

    elements = 0

    def __init__(self, path: str, framework: str) -> None:
        self.file: Any = safe_open(path, framework=framework)

    def __enter__(self) -> CountedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.__exit__(None, None, None)

    def keys(self) -> list[str]:
        return list(self.file.keys())

    def get_slice(self, name: str) -> CountedRows:
        return CountedRows(self.file.get_slice(name))


class CountedRows:
    """Rows of one tensor of such a file."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def get_shape(self) -> list[int]:
        return list(self.rows.get_shape())

    def __getitem__(self, wanted: slice) -> torch.Tensor:
        read: torch.Tensor = self.rows[wanted]
        CountedFile.elements += read.numel()
        return read


def work_as_rank(rank: int, meeting: str, found: str, damaged: str, *runs: str) -> None:
    """One of two ranks: what every job came to, and how a damaged base is refused."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    told: dict[str, Any] = {Path(run).parent.name: told_of(Path(run), rank) for run in runs}
    for name in ("missing", "misshapen"):
        options = {"dtype": "float32", "device": "cpu", "attention": "eager"}
        with pytest.raises(UserError) as caught:
            sharded.load_sharded(Path(damaged) / name, **options)
        told[name] = str(caught.value)
    torch.save(told, f"{found}-{rank}.pt")
    dist.destroy_process_group()


def told_of(run: Path, rank: int) -> dict[str, Any]:
    """The update of a job, the adapter after it, and what of the base this rank holds."""
    job, CountedFile.elements = read_job(run), 0
    pytest.MonkeyPatch().setattr(sharded, "safe_open", CountedFile)
    model = model_of(job)
    if run.parent.name == "compiled":
        compile_layers(decoder_layers(model.causal), backend="aot_eager")
    held = {name: len(rows.to_local()) for name, rows in spread_weights(model).items()}
    loss = DocumentLoss(model.causal, job.training["loss_chunk_positions"])
    update = update_by_step(job, loss, model.masters, rank, 2)
    optimizer = make_optimizer(model.masters, job.params, torch.device("cpu"))
    optimizer.set_rate(0.01)
    optimizer.step()
    adapter.write_adapter(folder := run / f"adapter-{rank}", model)
    whole = {name: rows.full_tensor() for name, rows in spread_weights(model).items()}
    return {
        "update": update,
        "held": held,
        "read": CountedFile.elements,
        "whole": whole,
        "adapter": sha256_file(folder / "adapter_model.safetensors"),
    }


def spread_weights(model: Any) -> dict[str, DTensor]:
    """The weights of the base by their names in its files; all must be spread."""
    masters = {id(master) for master in model.masters.values()}
    base = {n: p for n, p in model.causal.named_parameters() if id(p) not in masters}
    assert all(isinstance(parameter, DTensor) for parameter in base.values())
    return {name.replace(".frozen", ""): parameter for name, parameter in base.items()}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    folder = tmp_path_factory.mktemp("sharded")
    bases = {"llama": write_tiny_base(folder / "llama", "llama")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SIZES, "intermediate_size", UNEVEN)
        bases["qwen3"] = write_tiny_base(folder / "qwen3", "qwen3")
    made = {}
    for name, (kind, plan) in WAYS.items():
        job = job_of(bases[kind], folder / name, BINS, 1, ranks=2)
        made[name] = replace(job, training={**job.training, "parallel": "sharded", **plan})
        made[name].write()
    return made


def damage(base: Path, folder: Path) -> None:
    """Copies of a base without its last norm, and with one that is too short."""
    tensors, norm = load_file(str(base / WEIGHTS)), "model.norm.weight"
    for name in ("missing", "misshapen"):
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_bytes((base / "config.json").read_bytes())
    without = {key: tensor for key, tensor in tensors.items() if key != norm}
    save_file(without, str(folder / "missing" / WEIGHTS))
    short = {**tensors, norm: tensors[norm][:3].clone()}
    save_file(short, str(folder / "misshapen" / WEIGHTS))


@pytest.fixture(scope="module")
def told(
    jobs: dict[str, Job], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the two ranks found."""
    folder = tmp_path_factory.mktemp("ranks")
    damage(jobs["kept"].base, folder / "damaged")
    runs = [str(job.run) for job in jobs.values()]
    arguments = [str(folder / "meeting"), str(folder / "found"), str(folder / "damaged"), *runs]
    call = "from tests.unit.learning.test_sharded import work_as_rank as work; work({}, *{})"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", call.format(rank, arguments)],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    errors = [rank.communicate(timeout=240)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "".join(errors)[-3000:]
    first, second = (torch.load(folder / f"found-{rank}.pt") for rank in (0, 1))
    return first, second


@pytest.mark.parametrize("way", WAYS)
def test_loss_and_gradients_are_those_of_a_whole_base(
    jobs: dict[str, Job], told: tuple[dict[str, Any], ...], way: str
) -> None:
    job = jobs[way]
    alone = replace(job, training={**job.training, "parallel": "replicas", "ranks": 1})
    expected = update_of_the_model(alone)
    for rank in told:
        require_same(rank[way]["update"], expected)


@pytest.mark.parametrize("way", WAYS)
def test_both_ranks_hold_the_same_adapter(told: tuple[dict[str, Any], ...], way: str) -> None:
    assert told[0][way]["adapter"] == told[1][way]["adapter"]


@pytest.mark.parametrize("way", ["kept", "recomputed"])
def test_each_rank_reads_and_holds_its_rows_alone(
    jobs: dict[str, Job], told: tuple[dict[str, Any], ...], way: str
) -> None:
    base = load_base(jobs[way].base, dtype="float32", device="cpu")
    weights = dict(base.named_parameters())
    assert weights.keys() == told[0][way]["whole"].keys()
    for name, weight in weights.items():
        torch.testing.assert_close(told[0][way]["whole"][name], weight.detach(), rtol=0, atol=0)
        rows = [rank[way]["held"][name] for rank in told]
        assert rows == [-(-len(weight) // 2), len(weight) // 2]
    elements = sum(weight.numel() for weight in weights.values())
    read = [rank[way]["read"] for rank in told]
    assert sum(read) == elements
    assert max(read) < 0.51 * elements


def test_a_base_whose_files_do_not_fit_the_model_is_refused(
    told: tuple[dict[str, Any], ...],
) -> None:
    assert "model.norm.weight is not in its safetensors files" in told[0]["missing"]
    assert "[3], the model [64]" in told[0]["misshapen"]
