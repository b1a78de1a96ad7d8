"""From the hash of a run of tokens to the protected problems that hold it.

Called by protected_runs.py and screen.py; reads and writes nothing. Arrays alone, so that
thousands of runs are looked up at once and a worker loads a table in no time; what speeds
the look-up is worked out from the keys there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pipeline.corpus.overlap.hashing import U64, Bools

Ints = NDArray[np.int64]

FILTER_BITS, BUCKET_BITS = 21, 18
"""First bits of a hash: those by which most are ruled out, and those that lead to its place."""


def distinct_pairs(hashes: U64, items: Ints) -> tuple[U64, Ints]:
    """The different (hash, item) pairs in ascending order."""
    order = np.lexsort((items, hashes))
    hashes, items = hashes[order], items[order]
    new = np.ones(len(hashes), np.bool_)
    new[1:] = (hashes[1:] != hashes[:-1]) | (items[1:] != items[:-1])
    return hashes[new], items[new]


@dataclass(frozen=True)
class HashTable:
    """Hash → protected problems."""

    keys: U64
    """Ascending, each once."""
    starts: Ints
    items: Ints
    """Problems of key k: items[starts[k]:starts[k + 1]], ascending."""

    @classmethod
    def build(cls, hashes: U64, items: Ints) -> HashTable:
        """A table of (hash, protected problem) pairs."""
        ordered, held = distinct_pairs(hashes, items)
        keys, starts = np.unique(ordered, return_index=True)
        return cls(keys, np.append(starts, len(held)).astype(np.int64), held)

    @cached_property
    def maybe(self) -> Bools:
        """Whether some key begins with these bits; answers most questions at once."""
        maybe = np.zeros(1 << FILTER_BITS, np.bool_)
        maybe[_first_bits(self.keys, FILTER_BITS)] = True
        return maybe

    @cached_property
    def buckets(self) -> NDArray[np.int32]:
        """Where the keys with these first bits begin; the number of keys at the end."""
        ends = np.cumsum(
            np.bincount(_first_bits(self.keys, BUCKET_BITS), minlength=1 << BUCKET_BITS)
        )
        return np.append(0, ends).astype(np.int32)

    @cached_property
    def longest(self) -> int:
        """Keys of the fullest bucket."""
        return int(np.diff(self.buckets).max())

    def look_up(self, hashes: U64, rows: NDArray[np.int32]) -> tuple[Ints, Ints, Ints]:
        """(row, protected problem, key) of every hash that is in the table."""
        likely = np.flatnonzero(self.maybe.take(_first_bits(hashes, FILTER_BITS)))
        keys = self._places(hashes[likely])
        found = keys >= 0
        keys, rows = keys[found], rows[likely[found]]
        starts = self.starts[keys]
        sizes = self.starts[keys + 1] - starts
        before = np.cumsum(sizes) - sizes
        places = np.arange(sizes.sum()) + np.repeat(starts - before, sizes)
        return np.repeat(rows, sizes).astype(np.int64), self.items[places], np.repeat(keys, sizes)

    def _places(self, hashes: U64) -> Ints:
        """Place of each hash among the keys, or -1."""
        first = self.buckets.take(_first_bits(hashes, BUCKET_BITS)).astype(np.int64)
        places = np.full(len(hashes), -1, np.int64)
        for step in range(self.longest):
            at = np.minimum(first + step, len(self.keys) - 1)
            same = self.keys.take(at) == hashes
            places[same] = at[same]
        return places


def _first_bits(hashes: U64, bits: int) -> Ints:
    return (hashes >> np.uint64(64 - bits)).view(np.int64)
