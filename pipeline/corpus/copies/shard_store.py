"""What a judged shard leaves on disk for the reduction, and how it is read back.

Written by judge.py into the shard's folder: one `ENTRY` for every candidate that may be
kept or that states an answer (62 bytes), and texts in stores that are read by number.
Read by near_copies.py, golds.py, index.py and settle.py, one column or one text at a
time: the reduction holds no text in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ENTRY = np.dtype(
    [
        ("problem", "<u8"),  # problem_id as a number
        ("digest_a", "<u8"),  # both: problem, reasoning and reply
        ("digest_b", "<u8"),
        ("gold", "<u8"),  # the answer, normalised
        ("row_id", "<u8"),  # file and the row's own id; 0: it has none
        ("template", "<u8"),  # wording of the reply; 0: too short to tell
        ("problem_at", "<u4"),  # place in the shard's stores
        ("gold_at", "<u4"),
        ("place", "<i4"),  # line of survivors.jsonl, from 0; -1: only states an answer
        ("stated", "u1"),  # 1: the answer is stated, 0: it is the reply's own box
        ("votes", "u1"),  # 1: the first entry of its row
    ]
)
"""One candidate; fields without padding."""

PROBLEM = np.dtype([("problem", "<u8"), ("figures", "<u8")])
"""One distinct problem of a shard: its id and a hash of its numbers and operators."""

Unsigned = NDArray[np.uint64]
_END = struct.Struct("<Q")


def hash64(text: str) -> int:
    """64 bits that tell texts apart; never 0."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") or 1


def hash128(text: str) -> tuple[int, int]:
    """128 bits that tell texts apart, in two halves."""
    digest = blake2b(text.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


class TextWriter:
    """Texts in the order in which they are added: NAME.txt, and NAME.ends with their ends."""

    def __init__(self, folder: Path, name: str) -> None:
        self._texts = (folder / f"{name}.txt").open("wb")
        self._ends = (folder / f"{name}.ends").open("wb")
        self._size = self._count = 0

    def add(self, text: str) -> int:
        """Append a text; its number."""
        self._size += self._texts.write(text.encode())
        self._ends.write(_END.pack(self._size))
        self._count += 1
        return self._count - 1

    def close(self) -> None:
        """Flush both files."""
        self._texts.close()
        self._ends.close()


def read_text(folder: Path, name: str, number: int) -> str:
    """One of the texts that a `TextWriter` has written."""
    first = max(0, number - 1)
    with (folder / f"{name}.ends").open("rb", buffering=0) as stream:
        stream.seek(first * _END.size)
        raw = stream.read((number - first + 1) * _END.size)
    ends = [end for (end,) in _END.iter_unpack(raw)]
    start = ends[0] if number else 0
    with (folder / f"{name}.txt").open("rb", buffering=0) as stream:
        stream.seek(start)
        return stream.read(ends[-1] - start).decode()


class Folders:
    """The folders of all judged shards, in order. Nothing is held, nothing stays mapped.

    Args:
        paths: the shards' folders, at least one.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)

    def text(self, name: str, shard: int, number: int) -> str:
        """Text `number` of the store `name` of one shard."""
        return read_text(self.paths[shard], name, number)

    def column(self, field: str) -> NDArray[Any]:
        """One field of the entries of all shards, shape [entries]."""
        return self._joined("entries.npy", field, ENTRY[field])

    def problems(self, field: str) -> NDArray[Any]:
        """One field of the problems of all shards, shape [problems of all shards]."""
        return self._joined("problems.npy", field, PROBLEM[field])

    def band(self, number: int) -> Unsigned:
        """One row of the signatures of all shards' problems, shape [problems of all shards]."""
        return self._joined("signatures.npy", number, np.dtype(np.uint64), axis=1)

    def entry(self, shard: int, number: int) -> NDArray[Any]:
        """One entry, a scalar of type `ENTRY`."""
        found: NDArray[Any] = np.load(self.paths[shard] / "entries.npy", mmap_mode="r")[number]
        return found

    def counts(self, name: str, axis: int = 0) -> NDArray[np.int64]:
        """Rows of the array `name` in each shard, shape [shards]."""
        sizes = [np.load(path / name, mmap_mode="r").shape[axis] for path in self.paths]
        return np.array(sizes, dtype=np.int64)

    def _joined(
        self, name: str, part: str | int, kind: np.dtype[Any], axis: int = 0
    ) -> NDArray[Any]:
        ends = np.cumsum(self.counts(name, axis))
        joined = np.empty(int(ends[-1]), dtype=kind)
        for path, end in zip(self.paths, ends.tolist(), strict=True):
            found = np.load(path / name, mmap_mode="r")[part]
            joined[end - len(found) : end] = found
        return joined
