"""The nearest protected problems of every training problem, by cosine of embeddings.

Reads work/filter/kept.jsonl in shards and the protected sets; leaves its unfinished work in
a scratch folder, and holds no embedding of training problems beyond one batch. Called by
`python -m pipeline.semantic`, which imports this module, and so torch, only for a model.
The workers are forked from a process that has imported it; none has touched a card before.

A cosine is rounded to four decimals before anything is decided by it: the last bits depend
on the machine, and candidates are therefore taken a little below the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.base.errors import UserError
from pipeline.base.params_corpus import ExecutorParams, SemanticParams
from pipeline.base.progress import Progress
from pipeline.corpus.execution.executor import Watch, run_shards
from pipeline.corpus.execution.shards import line_shards
from pipeline.corpus.overlap.embedding import cosines, shared_encoder
from pipeline.corpus.overlap.protected import ProtectedSet
from pipeline.corpus.overlap.sentence_model import SentenceModel
from pipeline.corpus.overlap.token_store import (
    Batches,
    Span,
    as_id,
    as_number,
    spans_of,
    tokenise,
    write_plan,
    write_store,
)

BATCH_TOKENS = {"cpu": 2048, "cuda": 65536}
"""Tokens of a batch, padding included; decides the last bits of a cosine."""
SPAN_TOKENS = {"cpu": 2**15, "cuda": 2**22}
"""Least tokens between two points of restart; decides no bit."""
MOST_SPANS = 4096
BATCH_SECONDS = 900.0
"""A batch at work for longer hangs: the largest models take minutes on one core."""
CUDA_WORKER_GIB = 2.0**16
"""No limit: drivers reserve far more address space than they use."""

STEPS = 10_000
"""Cosines are whole numbers of 1/STEPS once they are rounded."""
MARGIN = 1e-4
BIN_STEPS = 500
BINS = STEPS // BIN_STEPS
"""Bins of the histogram of nearest cosines; those below 0 are counted in the first."""

PAIR = np.dtype([("id", "<u8"), ("protected", "<u8"), ("cosine", "<i4"), ("set", "<u2")])
"""A training problem, a protected one, their cosine in 1/STEPS, and the set's number."""

Pairs = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Embedding:
    """What embeds a span: the model, where, and the stores of the plan."""

    model: SentenceModel
    device: str
    stores: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """An embedding whose vectors are compared with the protected ones."""

    embedding: Embedding
    protected: str
    """Folder with ids.npy (u8 [P], ascending) and vectors.npy (float32 [P, d])."""
    sets: tuple[tuple[int, ...], ...]
    """Rows of the protected matrix that each set holds, sets in order of name."""
    min_cosine: float
    neighbours: int


@dataclass(frozen=True)
class Found:
    """What the search leaves: pairs in their final order, and figures."""

    pairs: Pairs
    names: list[str]
    """Sets in order of name; `set` of a pair is an index."""
    figures: dict[str, Any]
    """Problems, truncated ones, and the histogram of each set, as semantic.json has them."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of neighbours.jsonl."""
        for pair in self.pairs:
            yield {
                "id": as_id(int(pair["id"])),
                "set": self.names[int(pair["set"])],
                "protected": as_id(int(pair["protected"])),
                "cosine": int(pair["cosine"]) / STEPS,
            }


def embed_span(job: Embedding, span: Span, folder: Path, watch: Watch) -> None:
    """Task: vectors.npy, float32 [problems of the span, d], in the plan's order."""
    encoder = shared_encoder(job.model, job.device)
    batches = Batches(span, job.stores)
    vectors = np.empty((len(batches.rows), job.model.dimensions), dtype=np.float32)
    done = 0
    for number in range(len(batches)):
        rows, texts = _enter(batches, number, span, watch)
        vectors[done : done + len(rows)] = encoder.embed(texts).cpu().numpy()
        done += len(rows)
        watch.done(len(rows))
    np.save(folder / "vectors.npy", vectors)


def compare_span(job: Comparison, span: Span, folder: Path, watch: Watch) -> None:
    """Task: pairs.npy (`PAIR`) and nearest.npy (int64 [sets, BINS]) of a span."""
    encoder = shared_encoder(job.embedding.model, job.embedding.device)
    ids = np.load(Path(job.protected) / "ids.npy")
    known = torch.from_numpy(np.load(Path(job.protected) / "vectors.npy")).to(encoder.device)
    columns = [torch.tensor(one, device=encoder.device, dtype=torch.int64) for one in job.sets]
    batches = Batches(span, job.embedding.stores)
    histogram = np.zeros((len(columns), BINS), dtype=np.int64)
    found: list[Pairs] = []
    for number in range(len(batches)):
        rows, texts = _enter(batches, number, span, watch)
        similar = cosines(encoder.embed(texts), known)
        for place, members in enumerate(columns):
            if not len(members):
                continue
            within = similar[:, members]
            histogram[place] += _binned(within.amax(1).cpu().numpy())
            row, column = torch.nonzero(within >= job.min_cosine - MARGIN, as_tuple=True)
            values = _rounded(within[row, column].cpu().numpy())
            pairs = np.empty(len(values), dtype=PAIR)
            pairs["id"] = rows["id"][row.cpu().numpy()]
            pairs["protected"] = ids[members[column].cpu().numpy()]
            pairs["cosine"] = values
            pairs["set"] = place
            found.append(nearest(pairs, job.min_cosine, job.neighbours))
        watch.done(len(rows))
    np.save(folder / "pairs.npy", np.concatenate([np.empty(0, dtype=PAIR), *found]))
    np.save(folder / "nearest.npy", histogram)


def _enter(batches: Batches, number: int, span: Span, watch: Watch) -> tuple[Any, list[Any]]:
    reason = watch.enter(number)
    if reason is not None:
        raise UserError(
            f"{span.path}: batch {span.first_row + number} cannot be embedded ({reason})",
            "Raise executor.worker_gib, lower executor.workers, or choose a smaller model.",
        )
    return batches.read(number)


def _rounded(values: NDArray[np.float32]) -> NDArray[np.int32]:
    return np.rint(values.astype(np.float64) * STEPS).astype(np.int32)


def _binned(values: NDArray[np.float32]) -> NDArray[np.int64]:
    bins = np.clip(_rounded(values) // BIN_STEPS, 0, BINS - 1)
    return np.bincount(bins, minlength=BINS)


def nearest(pairs: Pairs, min_cosine: float, neighbours: int) -> Pairs:
    """The `neighbours` best pairs of each problem of one set, equal cosines by id."""
    pairs = pairs[pairs["cosine"] >= min_cosine * STEPS - 1e-6]
    pairs = pairs[np.lexsort((pairs["protected"], -pairs["cosine"], pairs["id"]))]
    first = np.searchsorted(pairs["id"], pairs["id"])
    return pairs[np.arange(len(pairs)) - first < neighbours]


def in_order(pairs: Pairs) -> Pairs:
    """Pairs by id, falling cosine, set, protected id: the order of neighbours.jsonl."""
    keys = (pairs["protected"], pairs["set"], -pairs["cosine"], pairs["id"])
    return pairs[np.lexsort(keys)]


class Search:
    """One search, step by step, in a scratch folder.

    Args:
        device: "cpu" or "cuda", already chosen.
        cards: CUDA devices of this machine; as many workers embed.
        scratch: finished shards of an earlier run are found here.
    """

    def __init__(
        self,
        model: SentenceModel,
        settings: SemanticParams,
        executor: ExecutorParams,
        device: str,
        cards: int,
        scratch: Path,
    ) -> None:
        self._model, self._settings, self._device = model, settings, device
        self._scratch = scratch
        self._tokenising = executor
        changes: dict[str, Any] = {"row_seconds": max(BATCH_SECONDS, executor.row_seconds)}
        if device == "cuda":
            changes |= {"backend": "processes", "workers": cards, "worker_gib": CUDA_WORKER_GIB}
        self._embedding = executor.model_copy(update=changes)

    def run(self, kept: Path, sets: Sequence[ProtectedSet]) -> Found:
        """Find the neighbours of all problems of `kept`."""
        sets = sorted(sets, key=lambda one: one.name)
        ids = self._embed_protected(sets)
        members = [
            tuple(sorted(int(np.searchsorted(ids, as_number(one.id))) for one in each.problems))
            for each in sets
        ]
        shards = line_shards(kept, max(1, int(self._tokenising.shard_mib * 2**20)))
        stores = run_shards(
            "tokenise", tokenise, self._model, shards, self._scratch, self._tokenising,
            Progress("semantic: tokenise", "rows", None), [shard.bytes for shard in shards],
        )  # fmt: skip
        plan = self._scratch / "plan"
        problems, truncated = write_plan(plan, stores, BATCH_TOKENS[self._device])
        limits = (self._settings.min_cosine, self._settings.neighbours)
        protected = str((self._scratch / "protected").absolute())
        job = Comparison(self._job(stores), protected, tuple(members), *limits)
        folders = self._embed("compare", compare_span, job, plan)
        pairs = [np.load(folder / "pairs.npy") for folder in folders]
        counts = np.sum([np.load(folder / "nearest.npy") for folder in folders], axis=0)
        figures = {
            "problems": problems,
            "truncated": truncated,
            "bin_width": BIN_STEPS / STEPS,
            "sets": [
                {"name": one.name, "problems": len(one.problems), "nearest": row.tolist()}
                for one, row in zip(sets, counts)
            ],
        }
        return Found(in_order(np.concatenate(pairs)), [one.name for one in sets], figures)

    def _embed_protected(self, sets: Sequence[ProtectedSet]) -> NDArray[np.uint64]:
        """Write ids.npy and vectors.npy of the distinct protected problems; their ids."""
        home = self._scratch / "protected"
        problems = ((one.id, one.problem) for each in sets for one in each.problems)
        write_store(home, problems, self._model)
        write_plan(home, [home], BATCH_TOKENS[self._device])
        folders = self._embed("protect", embed_span, self._job([home]), home)
        ids = np.load(home / "order.npy")["id"]
        order = np.argsort(ids)
        nothing = np.empty((0, self._model.dimensions), dtype=np.float32)
        parts = [np.load(folder / "vectors.npy") for folder in folders]
        vectors = np.concatenate([nothing, *parts])
        np.save(home / "ids.npy", ids[order])
        np.save(home / "vectors.npy", vectors[order])
        return np.asarray(ids[order])

    def _job(self, stores: Sequence[Path]) -> Embedding:
        return Embedding(self._model, self._device, tuple(str(one.absolute()) for one in stores))

    def _embed(self, name: str, task: Any, job: Any, plan: Path) -> list[Path]:
        spans = spans_of(plan, SPAN_TOKENS[self._device], MOST_SPANS)
        progress = Progress(f"semantic: {name}", "problems", None)
        sizes = [span.tokens for span in spans]
        return run_shards(name, task, job, spans, self._scratch, self._embedding, progress, sizes)
