"""A judging task with traps: rows that do harm where their text says so; workers import it.

A row whose problem is `trap WHERE ACT` does ACT (`tasks.ACTS`) while it is parsed (`read`),
while a table hands it out (`fetch`) or while it is judged (`judge`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow
import pyarrow.parquet

from pipeline.corpus import judge
from pipeline.corpus.execution.shards import Shard
from pipeline.corpus.execution.watch import Watch
from pipeline.corpus.judge import JudgeJob, judge_shard
from pipeline.corpus.readers import tables, window
from pipeline.corpus.rows import strict_json
from tests.unit.corpus.execution.tasks import ACTS

_TRAP = re.compile(r"trap (\w+) (\w+)")

_unique, _converted, _alone = strict_json.unique, tables._converted, tables._alone
_judge_candidate, _iter_batches = judge.judge_candidate, pyarrow.parquet.ParquetFile.iter_batches


def spring(where: str, texts: list[Any]) -> None:
    """Do what one of the texts asks for at this place."""
    for text in texts:
        found = _TRAP.fullmatch(text) if isinstance(text, str) else None
        if found is not None and found[1] == where:
            ACTS[found[2]]()


def _parse(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    spring("read", [value for _, value in pairs])
    return _unique(pairs)


def _convert(batch: pyarrow.RecordBatch) -> list[dict[str, Any]]:
    spring("read", batch.column("problem").to_pylist())
    return _converted(batch)


def _convert_one(batch: pyarrow.RecordBatch, position: int) -> Any:
    spring("read", batch.column("problem").slice(position, 1).to_pylist())
    return _alone(batch, position)


def _judge(candidate: Any, settings: Any) -> Any:
    spring("judge", [candidate.problem])
    return _judge_candidate(candidate, settings)


def _fetch(file: Any, **more: Any) -> Iterator[pyarrow.RecordBatch]:
    for batch in _iter_batches(file, **more):
        spring("fetch", batch.column("problem").to_pylist())
        yield batch


def judge_with_traps(job: JudgeJob, shard: Shard, folder: Path, watch: Watch) -> None:
    """`judge_shard`, but harmful rows do their harm."""
    decoder = strict_json.json.JSONDecoder(object_pairs_hook=_parse)
    with (
        patch.object(strict_json, "DECODER", decoder),
        patch.object(window, "DECODER", decoder),
        patch.object(tables, "_converted", _convert),
        patch.object(tables, "_alone", _convert_one),
        patch.object(judge, "judge_candidate", _judge),
        patch.object(pyarrow.parquet.ParquetFile, "iter_batches", _fetch),
    ):
        judge_shard(job, shard, folder, watch)
