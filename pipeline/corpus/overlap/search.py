"""Map step of decontamination: one shard of traces → its suspects and its problem ids.

Reads a shard of work/filter/kept.jsonl; writes into the shard's scratch folder:

suspects.jsonl  one line for each different problem that resembles a protected one
ids.npy         the problem id of every row, as uint64, in order
sizes.npy       the bytes of every row, as int64, in order

Called by `python -m pipeline.decontaminate` through the executor.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.base.artifacts import Json, dump_json
from pipeline.base.records import Problem, Trace, from_line
from pipeline.corpus.execution.shards import Shard, read_shard_batches
from pipeline.corpus.execution.watch import PoisonRow, Watch
from pipeline.corpus.overlap.cosines import Cosines
from pipeline.corpus.overlap.judgement import Judge, Pair
from pipeline.corpus.overlap.protected_index import ProtectedIndex, build_index
from pipeline.corpus.overlap.screen import BATCH_LINES, Screen, ids_of, problems_of

SUSPECTS, IDS, SIZES = "suspects.jsonl", "ids.npy", "sizes.npy"


@dataclass(frozen=True, slots=True)
class SearchJob:
    """What every shard is searched for."""

    index: Path
    """Index and screen of the protected problems, as `prepare` writes them."""
    paraphrase_cosine: float
    cosines: Path
    """Array of cosines.py."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A training problem and the protected ones that it resembles."""

    id: int
    problem: str
    pairs: list[Pair]
    poison: str
    """Why it could not be judged; empty if it was."""

    def to_json(self) -> Json:
        """One line of suspects.jsonl."""
        return [self.id, self.problem, [pair.to_json() for pair in self.pairs], self.poison]

    @classmethod
    def from_json(cls, value: Json) -> Suspicion:
        """What `to_json` wrote."""
        number, problem, pairs, poison = value
        return cls(number, problem, [Pair.from_json(pair) for pair in pairs], poison)


def prepare(items: Sequence[Problem], ngram_words: int, path: Path) -> ProtectedIndex:
    """Build the index of the protected problems and write it down for all workers."""
    index = build_index(items, ngram_words)
    with path.open("wb") as stream:
        pickle.dump((index, Screen(index)), stream, pickle.HIGHEST_PROTOCOL)
    return index


@lru_cache(maxsize=1)
def prepared(path: Path) -> tuple[ProtectedIndex, Screen]:
    """What `prepare` wrote in this run; a worker reads it once."""
    with path.open("rb") as stream:
        found: tuple[ProtectedIndex, Screen] = pickle.load(stream)
    return found


@dataclass
class Search:
    """The search in one shard."""

    judge: Judge
    screen: Screen
    cosines: Cosines

    def batch(self, lines: Sequence[bytes], ids: list[int], known: set[int]) -> Iterator[Suspicion]:
        """Suspicions of the problems that are not in `known`, which grows."""
        problems = problems_of(lines)
        suspects = {one.row: one.items for one in self.screen.hopeful(problems)}
        near = self.cosines.of(ids)
        for row in sorted(suspects.keys() | near.keys()):
            if ids[row] not in known:
                known.add(ids[row])
                pairs = self.judge.pairs(problems[row], suspects.get(row, ()), near.get(row))
                if pairs:
                    yield Suspicion(ids[row], problems[row], pairs, "")


def search_shard(job: SearchJob, shard: Shard, folder: Path, watch: Watch) -> None:
    """Task of the executor: find the suspects of a shard."""
    index, screen = prepared(job.index)
    search = Search(Judge(index, job.paraphrase_cosine), screen, Cosines.load(job.cosines))
    known: set[int] = set()
    ids: list[NDArray[np.uint64]] = [np.zeros(0, np.uint64)]
    sizes: list[int] = []
    with (folder / SUSPECTS).open("w", encoding="utf-8", newline="\n") as stream:
        for batch in read_shard_batches(shard, BATCH_LINES):
            ids.append(ids_of(batch))
            for one in _guarded(search, batch, ids[-1].tolist(), len(sizes), known, watch):
                stream.write(dump_json(one.to_json()) + "\n")
            sizes += map(len, batch)
    np.save(folder / IDS, np.concatenate(ids))
    np.save(folder / SIZES, np.array(sizes, np.int64))


def _guarded(
    search: Search,
    batch: list[bytes],
    ids: list[int],
    row: int,
    known: set[int],
    watch: Watch,
) -> list[Suspicion]:
    """The batch's suspicions; row by row if the batch as a whole once ended a worker."""
    before = set(known)
    try:
        if row not in watch.poison:
            with watch.guarded(row):
                found = list(search.batch(batch, ids, known))
            watch.done(len(batch) - 1)
            return found
    except PoisonRow:
        known.intersection_update(before)
    return [
        one
        for place, line in enumerate(batch)
        for one in _alone(search, line, ids[place], row + place, known, watch)
    ]


def _alone(
    search: Search, line: bytes, key: int, row: int, known: set[int], watch: Watch
) -> list[Suspicion]:
    try:
        with watch.guarded(row):
            return list(search.batch([line], [key], known))
    except PoisonRow as poison:
        trace = from_line(Trace, line, "a row of traces")
        return [Suspicion(int(trace.id, 16), trace.problem, [], poison.reason)]
