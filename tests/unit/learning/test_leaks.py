"""No document of a pack sees another, in logits, loss and gradients, however a step is cut up.

The checks are shown to see a leak: plain transformers, told of the borders by position ids
alone, must fail them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from pipeline.base.curriculum import Curriculum, Stage
from pipeline.base.loading import load_base
from pipeline.learning.attention import DOCUMENTS, register
from pipeline.learning.data import PackedData, micro_batches
from pipeline.learning.job import Job, read_job
from pipeline.learning.loss import DocumentLoss
from pipeline.learning.model import build
from pipeline.learning.optimizers import make_optimizer
from pipeline.learning.step import Scaler, Stepper
from tests.support.bins import Made, learnt_half, write_bins
from tests.support.closure import ROOT
from tests.support.packed import TWO_STAGES, TWO_TIERS, make_job, write_packed
from tests.support.settings import make_params
from tests.support.tiny import SIZES, write_tiny_base

LENGTHS = (17, 1, 30, 9)
BACKENDS = {DOCUMENTS: lambda lengths: {"document_lengths": lengths, "use_cache": False}}
"""Every attention that training may use, and what it is told besides the positions."""
POSITIONS_ALONE: dict[str, Callable[[int], dict[str, Any]]] = {
    "as-the-model-comes": lambda _: {"use_cache": True},
    "all-ones-mask": lambda tokens: {"attention_mask": torch.ones(1, tokens)},
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("leaks")
    return {kind: write_tiny_base(folder / kind, kind) for kind in ("llama", "qwen3")}


def logits_of(
    model: Any, tokens: torch.Tensor, lengths: Sequence[int], options: dict[str, Any]
) -> tuple[torch.Tensor, ...]:
    """Logits of every document of a pack, [length, vocabulary] each."""
    positions = torch.cat([torch.arange(n) for n in lengths])
    with torch.no_grad():
        output = model(input_ids=tokens[None], position_ids=positions[None], **options)
    return tuple(output.logits[0].split(list(lengths)))


def require_no_leak(
    model: Any, lengths: Sequence[int], document: int, place: int, options: dict[str, Any]
) -> None:
    """Change one token of a document: its own logits move, those of all others do not."""
    vocabulary = model.config.vocab_size
    generator = torch.Generator().manual_seed(sum(lengths))
    tokens = torch.randint(3, vocabulary, (sum(lengths),), generator=generator)
    other = tokens.clone()
    changed = sum(lengths[:document]) + place
    other[changed] = 3 + (other[changed] - 2) % (vocabulary - 3)
    assert other[changed] != tokens[changed]
    before, after = (logits_of(model, ids, lengths, options) for ids in (tokens, other))
    moved = [float((a - b).abs().max()) for a, b in zip(before, after, strict=True)]
    assert moved.pop(document) > 1e-4, "the model does not read the changed token"
    assert moved == [0.0] * len(moved), "a document sees another"


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_changed_token_moves_no_logit_of_another_document(
    bases: dict[str, Path], kind: str, backend: str
) -> None:
    register()
    model = load_base(bases[kind], dtype="float32", device="cpu", attention=backend)
    for document, length in enumerate(LENGTHS):
        for place in {0, length // 2, length - 1}:
            require_no_leak(model, LENGTHS, document, place, BACKENDS[backend](LENGTHS))


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize("plain", POSITIONS_ALONE)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_check_sees_the_leak_of_position_ids_alone(
    bases: dict[str, Path], kind: str, plain: str, attention: str
) -> None:
    model = load_base(bases[kind], dtype="float32", device="cpu", attention=attention)
    options = POSITIONS_ALONE[plain](sum(LENGTHS))
    with pytest.raises(AssertionError, match="a document sees another"):
        require_no_leak(model, LENGTHS, 0, 0, options)


def test_every_attention_that_is_registered_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[str] = []
    monkeypatch.setattr(
        transformers.AttentionInterface, "register", lambda name, _: registered.append(name)
    )
    register()
    assert registered == list(BACKENDS)


@pytest.fixture(scope="module")
def one_layer() -> Any:
    register()
    sizes = {**SIZES, "num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32}
    config = transformers.LlamaConfig(vocab_size=50, attn_implementation=DOCUMENTS, **sizes)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


@given(st.lists(st.integers(1, 40), min_size=2, max_size=7), st.data())
@settings(max_examples=200, deadline=None)
def test_no_pack_of_any_lengths_leaks(one_layer: Any, lengths: list[int], data: Any) -> None:
    document = data.draw(st.integers(0, len(lengths) - 1))
    place = data.draw(st.integers(0, lengths[document] - 1))
    options = BACKENDS[DOCUMENTS](tuple(lengths))
    require_no_leak(one_layer, lengths, document, place, options)


# Loss and gradients on the real step code, against each document run alone.

BINS = [[learnt_half(13), learnt_half(20), learnt_half(7)], [learnt_half(30), learnt_half(5)]]
CUTS = {"1x2": 1, "2x1": 2}
"""Micro-batch × accumulation: two bins are a step."""
Update = dict[str, Any]
"""Mean loss, and the gradient of every parameter."""


def job_of(base: Path, folder: Path, bins: list[list[Made]], micro_batch: int, ranks: int) -> Job:
    unclipped: dict[str, Any] = {"train.dropout": 0.0, "train.clip_norm": 1e9}
    params = make_params(**unclipped)
    data = write_bins(folder / "data", bins, band=64)
    job = make_job(
        base,
        data,
        params,
        micro_batch_sequences=micro_batch,
        ranks=ranks,
        accumulation=2 // micro_batch // ranks,
        sequences_per_step=2,
    )
    job = replace(job, run=folder / "run")
    job.run.mkdir()
    job.write()
    return job


def model_of(job: Job) -> Any:
    """The model as training builds it, with an adapter that does something."""
    model = build(job.base, job.params, job.training, "cpu")
    generator = torch.Generator().manual_seed(1)
    for parameter in model.masters.values():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data += 0.05 * noise
    return model


def update_by_step(
    job: Job, loss: Any, parameters: dict[str, Any], rank: int, ranks: int
) -> Update:
    device, masters = torch.device("cpu"), list(parameters.values())
    stepper = Stepper(
        job,
        loss,
        PackedData(job.data),
        masters,
        make_optimizer(parameters, job.params, device),
        device=device,
        rank=rank,
        ranks=ranks,
        scaler=Scaler(1.0),
        poll=lambda: False,
    )
    return {"loss": stepper.run(0, 0.0).loss, **{k: p.grad for k, p in parameters.items()}}


def update_of_the_model(job: Job, rank: int = 0, ranks: int = 1) -> Update:
    model = model_of(job)
    loss = DocumentLoss(model.causal, job.training["loss_chunk_positions"])
    return update_by_step(job, loss, model.masters, rank, ranks)


def update_by_documents_alone(job: Job, bins: list[list[Made]]) -> Update:
    """Every document a call of its own, with the attention that transformers calls eager."""
    model = model_of(job)
    model.causal.config._attn_implementation = "eager"
    documents = [document for inside in bins for document in inside]
    trained = sum(sum(mask) for _, mask in documents)
    summed = 0.0
    for ids, mask in documents:
        tokens, learnt = torch.tensor(ids), torch.tensor(mask)[1:]
        logits = model.causal(input_ids=tokens[None], use_cache=False).logits[0, :-1]
        loss = cross_entropy(logits[learnt], tokens[1:][learnt], reduction="sum")
        (loss / trained).backward()
        summed += float(loss.detach())
    gradients = {name: one.grad for name, one in model.masters.items()}
    return {"loss": summed / trained, **gradients}


def require_same(found: Update, expected: Update) -> None:
    assert found["loss"] == pytest.approx(expected["loss"], abs=1e-5)
    assert found.keys() == expected.keys()
    for name in found.keys() - {"loss"}:
        torch.testing.assert_close(found[name], expected[name], atol=1e-5, rtol=1e-5)
        assert float(expected[name].abs().max()) > 1e-4, f"{name} is not put to the proof"


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize("cut", CUTS)
def test_a_packed_step_is_that_of_its_documents_alone(
    bases: dict[str, Path], kind: str, cut: str, tmp_path: Path
) -> None:
    job = job_of(bases[kind], tmp_path, BINS, CUTS[cut], ranks=1)
    require_same(update_of_the_model(job), update_by_documents_alone(job, BINS))


# Two mean losses, 2.0 over 10 tokens and 1.0 over 2: their mean is 1.5, the loss 22/12.

UNEVEN: list[list[Made]] = [[([20] * 11, [False] + [True] * 10)], [([10] * 3, [False, True, True])]]


class TokenLoss(torch.nn.Module):
    """Every token's loss is a tenth of its id, times a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(()))

    def forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, targets: torch.Tensor, lengths: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.factor * (tokens[targets] / 10).sum(), torch.zeros((), dtype=torch.int64)


def update_of_uneven_losses(job: Job, rank: int = 0, ranks: int = 1) -> Update:
    loss = TokenLoss()
    return update_by_step(job, loss, {"factor": loss.factor}, rank, ranks)


@pytest.mark.parametrize("cut", CUTS)
def test_uneven_micro_batches_weigh_by_their_tokens(cut: str, tmp_path: Path) -> None:
    found = update_of_uneven_losses(job_of(tmp_path, tmp_path, UNEVEN, CUTS[cut], ranks=1))
    assert found["loss"] == pytest.approx(22 / 12, abs=1e-6)
    assert float(found["factor"]) == pytest.approx(22 / 12, abs=1e-6)


def work_as_rank(rank: int, meeting: str, found: str, uneven: str, *runs: str) -> None:
    """One of two ranks: the updates of all jobs, the first one's kept by rank 0."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    updates = [update_of_uneven_losses(read_job(Path(uneven)), rank, 2)]
    updates += [update_of_the_model(read_job(Path(run)), rank, 2) for run in runs]
    if rank == 0:
        torch.save(updates, found)
    dist.destroy_process_group()


def test_two_ranks_make_the_update_of_the_documents_alone(
    bases: dict[str, Path], tmp_path: Path
) -> None:
    uneven = job_of(tmp_path, tmp_path / "uneven", UNEVEN, 1, ranks=2)
    jobs = [job_of(base, tmp_path / kind, BINS, 1, ranks=2) for kind, base in bases.items()]
    runs = [str(job.run) for job in (uneven, *jobs)]
    found = tmp_path / "updates.pt"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    call = "from tests.unit.learning.test_leaks import work_as_rank as work; work({}, *{})"
    arguments = [str(tmp_path / "meeting"), str(found), *runs]
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
    told = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "".join(told)[-3000:]
    weighed, *updates = torch.load(found)
    assert weighed["loss"] == pytest.approx(22 / 12, abs=1e-6)
    assert float(weighed["factor"]) == pytest.approx(22 / 12, abs=1e-6)
    for job, update in zip(jobs, updates, strict=True):
        require_same(update, update_by_documents_alone(job, BINS))


# What reaches the model: targets, lengths, every document once a pass.


def test_no_first_position_is_a_target_even_where_the_mask_says_so(tmp_path: Path) -> None:
    wrong = [[([5] * length, [True] * length) for length in (4, 1, 9)], [([6] * 3, [True] * 3)]]
    batch = PackedData(write_bins(tmp_path, wrong, band=16)).batch(np.array([0, 1]))
    assert batch.targets.tolist() == [1, 2, 3, *range(6, 14), 15, 16]
    assert batch.positions[batch.targets].min() == 1


def test_all_that_the_model_gets_has_one_length(tmp_path: Path) -> None:
    lengths = [(1, 2), (5, 8, 4), (16,), (13,), (3, 4)]
    bins = [[learnt_half(n) for n in inside] for inside in lengths]
    data = PackedData(write_bins(tmp_path, bins, band=17))
    for number, inside in enumerate(lengths):
        batch = data.batch(np.array([number]))
        assert batch.lengths == inside
        assert batch.tokens.size == batch.positions.size == sum(inside)
        assert batch.positions.tolist() == [place for n in inside for place in range(n)]


def documents_of_ranks(
    data: PackedData, curriculum: Curriculum, starts: list[int], steps: int, ranks: int
) -> Counter[int]:
    """How often each document is trained, over all ranks and micro-batches."""
    found: Counter[int] = Counter()
    for step in range(steps):
        for rank in range(ranks):
            slots = curriculum.slots(step, starts)
            for bins in micro_batches(slots, rank=rank, ranks=ranks, micro_batch=1):
                for number in bins:
                    first, last = data.first_document[number : number + 2].tolist()
                    found.update(range(first, last))
    return found


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_every_document_of_seven_bins_is_trained_once_an_epoch(tmp_path: Path, ranks: int) -> None:
    data = PackedData(write_packed(tmp_path, sequences=7))
    curriculum = Curriculum([Stage(64, 1.0)], data.buckets, 64 * 4, seed=0)
    found = documents_of_ranks(data, curriculum, [0], steps=7, ranks=ranks)
    assert found == dict.fromkeys(range(len(data.lengths)), 4)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_curriculum_repeats_no_document_before_its_bucket_is_exhausted(
    tmp_path: Path, ranks: int
) -> None:
    data = PackedData(write_packed(tmp_path, buckets=TWO_TIERS))
    shapes: list[dict[str, Any]] = TWO_STAGES
    stages = [Stage(one["sequence_tokens"], one["share"], one["tiers"]) for one in shapes]
    curriculum = Curriculum(stages, data.buckets, 64 * 4, seed=0)
    found = documents_of_ranks(data, curriculum, [0, 20], steps=40, ranks=ranks)
    ends = [*(bucket.first for bucket in data.buckets), len(data)]
    for first, last in pairwise(data.first_document[ends].tolist()):
        times = [found[document] for document in range(first, last)]
        assert max(times) - min(times) <= 1
        assert max(times) > 1
