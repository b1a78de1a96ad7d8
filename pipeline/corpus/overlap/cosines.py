"""Cosines of neighbours, as the semantic stage found them, for look-up by problem id.

Reads work/semantic/neighbours.jsonl, writes an array into the scratch folder, which every
worker maps into memory: 16 bytes a pair. Called by search.py and
`python -m pipeline.decontaminate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.base.artifacts import read_jsonl
from pipeline.base.errors import UserError
from pipeline.base.records import Problem

NEIGHBOURS = Path("work/semantic/neighbours.jsonl")
PAIR = np.dtype([("id", "<u8"), ("item", "<i4"), ("cosine", "<f4")])


@dataclass(frozen=True, slots=True)
class Cosines:
    """Neighbours in ascending order of problem id."""

    pairs: NDArray[Any]

    @classmethod
    def load(cls, path: Path) -> Cosines:
        """The array that `write_cosines` wrote."""
        return cls(np.load(path, mmap_mode="r"))

    def of(self, ids: Sequence[int]) -> dict[int, dict[int, float]]:
        """Place in `ids` → protected problem → cosine, for those that have neighbours."""
        if not len(self.pairs):
            return {}
        wanted = np.array(ids, np.uint64)
        starts = np.searchsorted(self.pairs["id"], wanted, "left")
        stops = np.searchsorted(self.pairs["id"], wanted, "right")
        return {
            place: {
                int(pair["item"]): round(float(pair["cosine"]), 4)
                for pair in self.pairs[starts[place] : stops[place]]
            }
            for place in np.flatnonzero(stops > starts).tolist()
        }


def write_cosines(items: Sequence[Problem], least: float, target: Path) -> int:
    """Array of the neighbours with at least this cosine; return how many there are.

    Args:
        items: protected problems in the order of their index.

    Raises:
        UserError: the file is missing, or names a problem that is not protected.
    """
    numbers = {(item.source, item.id): number for number, item in enumerate(items)}
    pairs = np.fromiter(_chosen(numbers, least), PAIR)
    np.save(target, np.sort(pairs, order=("id", "item")))
    return len(pairs)


def _chosen(numbers: dict[tuple[str, str], int], least: float) -> Iterator[tuple[int, int, float]]:
    for line, row in enumerate(read_jsonl(NEIGHBOURS), start=1):
        if row["cosine"] >= least:
            item = numbers.get((row["set"], row["protected"]))
            if item is None:
                raise UserError(
                    f"{NEIGHBOURS}:{line}: {row['set']} has no problem {row['protected']}",
                    "Run the semantic stage again: the protected sets have changed.",
                )
            yield int(row["id"], 16), item, row["cosine"]
