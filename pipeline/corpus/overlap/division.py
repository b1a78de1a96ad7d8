"""Divides the rows into kept and dropped ones, once every problem has been decided on.

Reads ids.npy and sizes.npy of every shard and, of work/filter/kept.jsonl, the dropped rows;
writes the kept ones as they stand. Called by `python -m pipeline.decontaminate`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.base.artifacts import replacing
from pipeline.base.errors import UserError
from pipeline.base.records import Dropped, Trace, excerpt, from_line
from pipeline.corpus.execution.copying import copy_parts
from pipeline.corpus.overlap.findings import Decision
from pipeline.corpus.overlap.hash_table import Ints
from pipeline.corpus.overlap.hashing import Bools
from pipeline.corpus.overlap.search import IDS, SIZES


@dataclass(frozen=True, slots=True)
class Division:
    """What became of the rows."""

    kept: int
    dropped: list[Dropped]
    """In the order of the file."""
    hits: Counter[str]
    """Set → dropped rows that repeat or resemble one of its problems."""


def divide(
    rows: Path, folders: Sequence[Path], decisions: Mapping[int, Decision], kept: Path
) -> Division:
    """Write the rows that are kept; name the others.

    Args:
        rows: file of traces, as the shards have read it.
        folders: scratch folders of the shards, in order.
        decisions: problem id → why its rows are dropped.

    Raises:
        UserError: the file is another one by now.
    """
    ids: NDArray[np.uint64] = np.concatenate([np.load(folder / IDS) for folder in folders])
    ends: Ints = np.cumsum(np.concatenate([np.load(folder / SIZES) for folder in folders]))
    if rows.stat().st_size != (ends[-1] if len(ends) else 0):
        raise UserError(f"{rows}: changed while it was searched", "Run again.")
    gone = np.isin(ids, np.fromiter(decisions, np.uint64, len(decisions)))
    dropped: list[Dropped] = []
    hits: Counter[str] = Counter()
    with rows.open("rb") as stream:
        for row in np.flatnonzero(gone).tolist():
            stream.seek(int(ends[row - 1]) if row else 0)
            decision = decisions[int(ids[row])]
            trace = from_line(Trace, stream.readline(), f"{rows}:{row + 1}")
            said = (decision.reason, decision.detail, excerpt(trace.problem))
            dropped.append(Dropped(trace.origin, trace.source, *said))
            hits.update(decision.sets)
    with replacing(kept) as temporary:
        copy_parts(rows, _kept_parts(gone, ends), temporary)
    return Division(len(ids) - len(dropped), dropped, hits)


def _kept_parts(gone: Bools, ends: Ints) -> list[tuple[int, int]]:
    """First and past-the-end byte of every run of rows that stay."""
    edges = np.flatnonzero(np.diff(gone.astype(np.int8), prepend=1, append=1))
    places = np.append(0, ends)[edges].tolist()
    return list(zip(places[::2], places[1::2], strict=True))
