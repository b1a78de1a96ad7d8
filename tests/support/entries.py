"""Columns of traces for tests of the selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.corpus.selection.entries import TIERS, Entries

Row = tuple[int, int]
"""Group and tokens."""


def make_entries(
    rows: Sequence[Row],
    *,
    tiers: Sequence[str] = (),
    sources: Sequence[int] = (),
    rates: Sequence[float | None] = (),
    topics: Sequence[int] = (),
    weights: Mapping[int, float] | None = None,
) -> Entries:
    """Rows with what else is given; else one source `s0`, unknown tier and rate, topic 0.

    Source n is the file `sn`, named by entry n of `data.sources`.
    """
    count = len(rows)
    numbers = list(sources) or [0] * count
    files = range(max(numbers, default=0) + 1)
    known = [np.nan if one is None else one for one in rates or [None] * count]
    return Entries(
        tokens=np.asarray([row[1] for row in rows], dtype=np.int32),
        group=np.asarray([row[0] for row in rows], dtype=np.uint64),
        source=np.asarray(numbers, dtype=np.int32),
        tier=np.asarray([TIERS.index(one) for one in tiers or ["unknown"] * count], dtype=np.uint8),
        solve_rate=np.asarray(known, dtype=np.float64),
        topic=np.asarray(topics or [0] * count, dtype=np.uint16),
        sources=[f"s{one}" for one in files],
        entry=list(files),
        weights=dict.fromkeys(files, 1.0) if weights is None else dict(weights),
    )
