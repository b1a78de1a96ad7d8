"""All encoded documents of a run, as arrays of a few bytes a document.

Reads the folders that shards.py has written; files.py copies from them. Called by
pipeline/tokenize.py. Documents are numbered in the order of their rows, so that ascending
numbers are ascending places in the files.
"""

from __future__ import annotations

import mmap
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.base.artifacts import read_json
from pipeline.base.errors import UserError
from pipeline.packing.shards import RECORD

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

MAX_TOO_LONG_SHARE = 0.5
"""More rows than this share too long means that the sequence length is wrong."""
TOKEN_BYTES = 4
DENSE = 8
"""A part of which more than an eighth is wanted is mapped, and read ahead by the system; of
others only what is wanted is read."""


class Encoded:
    """What the parts hold together.

    Args:
        folders: of the parts, in order.

    Attributes:
        lengths: tokens of every document, int32 [D].
        prompts: of its prompt, int32 [D].
        trained: those that carry loss, int32 [D].
        kinds: places in `names`, int32 [D].
        names: (source, tier) of every kind, sorted.
        rows: first byte of its row in the traces, int64 [D].
        firsts: number of the first document of every part, and of all documents.
        dropped: reason code → rows.
        dropped_tokens: of those rows that were encoded.
        variants: prompt variant → documents.
        tool_output: documents, spans and tokens that a tool wrote.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = list(folders)
        tallies = [read_json(folder / "tally.json") for folder in folders]
        self.names = sorted({(str(a), str(b)) for one in tallies for a, b in one["kinds"]})
        self.dropped, self.variants, self.tool_output = (
            dict(sorted(sum((Counter(one[key]) for one in tallies), Counter[str]()).items()))
            for key in ("dropped", "variants", "tool_output")
        )
        self.dropped_tokens = sum(int(one["dropped_tokens"]) for one in tallies)
        sizes = [len(_records(folder)) for folder in folders]
        self.firsts: list[int] = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]
        count = self.firsts[-1]
        self.lengths, self.prompts, self.trained, self.kinds = (
            np.empty(count, dtype=np.int32) for _ in range(4)
        )
        self.rows = np.empty(count, dtype=np.int64)
        self._starts, self._line_stops = np.empty((2, count), dtype=np.int64)
        for number, tally in enumerate(tallies):
            self._read(number, tally["kinds"])

    def _read(self, number: int, kinds: Sequence[Sequence[str]]) -> None:
        span = slice(self.firsts[number], self.firsts[number + 1])
        records = _records(self._folders[number])
        self.lengths[span], self.prompts[span] = records["length"], records["prompt"]
        self.trained[span], self.rows[span] = records["trained"], records["row_start"]
        self._line_stops[span] = records["line_stop"]
        self._starts[span] = np.cumsum(records["length"], dtype=np.int64) - records["length"]
        places = {name: place for place, name in enumerate(self.names)}
        known = np.array([places[source, tier] for source, tier in kinds], dtype=np.int32)
        self.kinds[span] = known[records["kind"]]

    def __len__(self) -> int:
        return len(self.lengths)

    def require_enough(self, sequence_tokens: int) -> None:
        """Refuse a sequence length that most rows do not fit into.

        Raises:
            UserError: more than half of the rows are too long, or no row is left.
        """
        too_long = self.dropped.get("too-long", 0)
        read = len(self) + sum(self.dropped.values())
        if len(self) and too_long <= MAX_TOO_LONG_SHARE * read:
            return
        others = {reason: n for reason, n in self.dropped.items() if reason != "too-long"}
        also = "".join(f", {count} are {reason}" for reason, count in others.items())
        raise UserError(
            f"{too_long} of {read} rows are longer than a sequence of {sequence_tokens} tokens"
            f"{also} and {len(self)} rows are left",
            "Raise `plan.sequence_tokens` or choose shorter traces.",
        )

    def per_source(self) -> dict[str, dict[str, dict[str, int]]]:
        """Source → tier → documents and tokens."""
        documents = np.bincount(self.kinds, minlength=len(self.names)).tolist()
        tokens = np.zeros(len(self.names), dtype=np.int64)
        np.add.at(tokens, self.kinds, self.lengths)
        found: dict[str, dict[str, dict[str, int]]] = {}
        for (source, tier), rows, total in zip(self.names, documents, tokens.tolist(), strict=True):
            found.setdefault(source, {})[tier] = {"documents": rows, "tokens": total}
        return found

    def untrained(self) -> NDArray[np.int32]:
        """Runs of tokens without loss behind a prompt: document, start, stop; int32 [K, 3]."""
        parts = []
        for first, folder in zip(self.firsts, self._folders):
            part = np.load(folder / "untrained.npy")
            part[:, 0] += first
            parts.append(part)
        whole: NDArray[np.int32] = np.concatenate(parts)
        return whole

    def copy_tokens(self, documents: Int32s, places: Int64s, target: Int32s) -> None:
        """Copy documents out of the parts.

        Args:
            documents: numbers, ascending, so that every file is read from front to back.
            places: where in `target` each begins.
        """
        room = target.data.cast("B")
        for number, span in self._by_part(documents):
            chosen = documents[span]
            starts = (self._starts[chosen] * TOKEN_BYTES).tolist()
            sizes = (self.lengths[chosen] * TOKEN_BYTES).tolist()
            targets = (places[span] * TOKEN_BYTES).tolist()
            spans = zip(starts, sizes, targets)
            path = self._folders[number] / "tokens.bin"
            self._require_whole(number, path)
            if sum(sizes) * DENSE > path.stat().st_size:
                with _mapped(path) as tokens, memoryview(tokens) as whole:
                    for start, size, place in spans:
                        room[place : place + size] = whole[start : start + size]
            else:
                with path.open("rb") as stream:
                    for start, size, place in spans:
                        _read_at(stream.fileno(), start, room[place : place + size])

    def _require_whole(self, number: int, path: Path) -> None:
        last = self.firsts[number + 1] - 1
        wanted = int(self._starts[last] + self.lengths[last]) * TOKEN_BYTES
        if path.stat().st_size != wanted:
            raise UserError(
                f"{path}: {path.stat().st_size} bytes of {wanted}", "Delete runs/corpus, run again."
            )

    def lines(self, documents: Int32s) -> list[bytes]:
        """The documents.jsonl lines of documents, without what ends them.

        Args:
            documents: numbers, ascending.
        """
        found: list[bytes] = []
        for number, span in self._by_part(documents):
            chosen = documents[span]
            stops = self._line_stops[chosen]
            before = self._line_stops[np.maximum(chosen - 1, 0)]
            starts = np.where(chosen > self.firsts[number], before, 0)
            with _mapped(self._folders[number] / "documents.jsonl") as text:
                found += [text[a:b] for a, b in zip(starts.tolist(), stops.tolist())]
        return found

    def _by_part(self, documents: Int32s) -> Iterator[tuple[int, slice]]:
        """Parts that hold some of these, ascending, documents, and which."""
        borders = np.searchsorted(documents, self.firsts).tolist()
        for number, (start, stop) in enumerate(pairwise(borders)):
            if start < stop:
                yield number, slice(start, stop)


def _records(folder: Path) -> NDArray[Any]:
    return np.load(folder / "documents.npy", mmap_mode="r").view(RECORD)  # type: ignore[no-any-return]


def _read_at(descriptor: int, start: int, room: memoryview) -> None:
    """Fill `room` from a place in a file."""
    while len(room):
        read = os.preadv(descriptor, [room], start)
        room, start = room[read:], start + read


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
        yield text
