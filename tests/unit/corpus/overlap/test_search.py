"""One shard: its suspects once each, its ids, and rows that would end a worker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.base.artifacts import read_jsonl, write_jsonl
from pipeline.base.records import write_rows
from pipeline.corpus.execution.executor import inline_watch
from pipeline.corpus.execution.shards import line_shards
from pipeline.corpus.overlap.cosines import NEIGHBOURS, write_cosines
from pipeline.corpus.overlap.search import (
    IDS,
    SIZES,
    SUSPECTS,
    SearchJob,
    Suspicion,
    prepare,
    search_shard,
)
from tests.support.overlap import LONG, protected
from tests.support.traces import make_trace

PROBLEMS = ["Why?", LONG, LONG, "How?", LONG.replace("7", "9"), "Why?"]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SearchJob:
    monkeypatch.chdir(tmp_path)
    prepare([protected(LONG)], 13, tmp_path / "protected.pickle")
    write_jsonl(NEIGHBOURS, [])
    write_cosines([protected(LONG)], 0.75, tmp_path / "cosines.npy")
    return SearchJob(tmp_path / "protected.pickle", 0.85, tmp_path / "cosines.npy")


def search(job: SearchJob, poison: dict[int, str]) -> tuple[list[Suspicion], list[int]]:
    write_rows(Path("kept.jsonl"), [make_trace(one) for one in PROBLEMS])
    (shard,) = line_shards(Path("kept.jsonl"), 2**20)
    watch = inline_watch()
    watch.poison.update(poison)
    search_shard(job, shard, Path(), watch)
    found = [Suspicion.from_json(row) for row in read_jsonl(Path(SUSPECTS))]
    return found, np.load(IDS).tolist()


def test_suspects_and_ids(job: SearchJob) -> None:
    found, ids = search(job, {})
    assert [one.problem for one in found] == [LONG, PROBLEMS[4]]
    assert ids == [int(make_trace(one).id, 16) for one in PROBLEMS]
    assert found[0].id == ids[1]
    lines = Path("kept.jsonl").read_bytes().splitlines(keepends=True)
    assert np.load(SIZES).tolist() == [len(line) for line in lines]


def test_a_batch_that_ended_a_worker_is_searched_row_by_row(job: SearchJob) -> None:
    assert search(job, {0: "timeout"})[0][1:] == search(job, {})[0]
    found, ids = search(job, {0: "timeout", 4: "memory"})
    assert [(one.problem, one.poison) for one in found] == [
        ("Why?", "timeout"),
        (LONG, ""),
        (PROBLEMS[4], "memory"),
    ]
    assert len(ids) == len(PROBLEMS)
