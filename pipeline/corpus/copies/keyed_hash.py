"""Problem ids as numbers, and orders among them that depend on a seed and nothing else.

Called by holdout.py, selection/choice.py and `python -m pipeline.filter`; reads and writes
nothing. A problem's place in such an order depends on its own id alone, so that rows
that come or go move no other row.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def id_number(key: str) -> int:
    """The 64-bit number of an id of 16 hexadecimal digits (records.problem_id)."""
    return int(key, 16)


def number_id(number: int) -> str:
    """The inverse of `id_number`."""
    return f"{number:016x}"


def keyed_hash(ids: NDArray[np.uint64], purpose: str, seed: int) -> NDArray[np.uint64]:
    """One pseudo-random number for every id; distinct ids get distinct ones.

    The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), keyed by SHA-256.

    Args:
        ids: uint64 of any shape.
        purpose: orders for different purposes are unrelated.
        seed: any whole number from 0.
    """
    key = hashlib.sha256(f"{purpose}:{seed}".encode()).digest()[:8]
    mixed = ids ^ np.uint64(int.from_bytes(key, "little"))
    mixed ^= mixed >> np.uint64(30)
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def run_starts(sorted_keys: NDArray[np.generic]) -> NDArray[np.bool_]:
    """True where a run of equal keys begins; shape (rows,)."""
    starts = np.ones(len(sorted_keys), dtype=np.bool_)
    np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=starts[1:])
    return starts


def rank_in_run(starts: NDArray[np.bool_]) -> NDArray[np.int32]:
    """0-based place of every row within its run; shape (rows,)."""
    places = np.arange(len(starts), dtype=np.int32)
    return places - np.maximum.accumulate(np.where(starts, places, np.int32(0)))
