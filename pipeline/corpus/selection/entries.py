"""The clean traces as columns of numbers: all that a selection needs, 27 bytes a row.

Called by `python -m pipeline.select`, which gives the lines of
work/decontaminate/kept.jsonl; writes nothing. No text stays in memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.base.errors import UserError
from pipeline.base.records import Trace, from_line
from pipeline.corpus.copies.keyed_hash import id_number
from pipeline.corpus.selection.topics import topic_of

TIERS = ("unknown", "easy", "medium", "hard")
"""Names of the tiers, by number."""


@dataclass(frozen=True)
class Entries:
    """The rows in their order; all arrays of shape (rows,)."""

    tokens: NDArray[np.int32]
    """Of prompt, reply and end token."""
    group: NDArray[np.uint64]
    """The problem, near copies included."""
    source: NDArray[np.int32]
    """Place in `sources`."""
    tier: NDArray[np.uint8]
    """Place in TIERS."""
    solve_rate: NDArray[np.float64]
    """NaN where it is unknown."""
    topic: NDArray[np.uint16]
    """Number of topics.topic_of."""
    sources: list[str]
    """Names of the files, in the order of their first rows."""
    entry: list[int]
    """For every file, the entry of `data.sources` that names it."""
    weights: dict[int, float]
    """Weight of every such entry."""

    def __len__(self) -> int:
        return len(self.tokens)


def read_entries(lines: Iterable[bytes], where: str, entry_of: Mapping[str, int]) -> Entries:
    """Read the lines of Trace once.

    Args:
        where: name of the file, for messages.
        entry_of: file → number of the entry of `data.sources` that names it.

    Raises:
        UserError: a line is no Trace, or its source or tier is unknown.
    """
    tokens, group, source = array("i"), array("Q"), array("i")
    tier, solve_rate, topic = array("B"), array("d"), array("H")
    numbers: dict[str, int] = {}
    weights: dict[int, float] = {}
    for number, line in enumerate(lines, start=1):
        row = from_line(Trace, line, f"{where}:{number}")
        if row.source not in numbers:
            weights[_entry(row, entry_of, f"{where}:{number}")] = row.weight
        if row.tier not in TIERS:
            known = ", ".join(TIERS)
            raise UserError(f"{where}:{number}: tier {row.tier!r}", f"A tier is one of {known}.")
        tokens.append(row.tokens)
        group.append(id_number(row.group))
        source.append(numbers.setdefault(row.source, len(numbers)))
        tier.append(TIERS.index(row.tier))
        solve_rate.append(np.nan if row.solve_rate is None else row.solve_rate)
        topic.append(topic_of(row.problem))
    return Entries(
        np.frombuffer(tokens, np.int32) if tokens else np.zeros(0, np.int32),
        np.frombuffer(group, np.uint64) if group else np.zeros(0, np.uint64),
        np.frombuffer(source, np.int32) if source else np.zeros(0, np.int32),
        np.frombuffer(tier, np.uint8) if tier else np.zeros(0, np.uint8),
        np.frombuffer(solve_rate, np.float64) if solve_rate else np.zeros(0),
        np.frombuffer(topic, np.uint16) if topic else np.zeros(0, np.uint16),
        list(numbers),
        [entry_of[name] for name in numbers],
        weights,
    )


def _entry(row: Trace, entry_of: Mapping[str, int], where: str) -> int:
    if row.source not in entry_of:
        raise UserError(
            f"{where}: source {row.source!r} is no file of work/prepare/data.json",
            "Run the stages again from the start: `dvc repro`.",
        )
    return entry_of[row.source]
