"""Shards, the units of work and of restart: how lines are cut into them and read back.

A file of lines is cut where a line begins: a line belongs to the shard in which its first
byte lies. Every file has at least one shard, if an empty one. Reads the files, writes
nothing. Called by the corpus stages for files that a stage has written; those of the user
come in many kinds and are cut by readers/cuts.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import BinaryIO

from pipeline.base.errors import UserError

BOM = b"\xef\xbb\xbf"
BLOCK_BYTES = 8 * 2**20
READ_BYTES = 2**20

Cut = tuple[int, int, int, int]
"""Start, stop, first row, bytes."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a file, or a whole one."""

    number: int
    """0-based place among all shards of the plan."""
    path: str
    source: str
    start: int
    stop: int
    """First and past-the-end byte of lines, or row group of Parquet; else 0 and the size."""
    first_row: int
    """Number of the first line (1-based), or index of the first row (0-based)."""
    bytes: int
    """Size in the file, for progress."""
    entry: int
    """Index of the file in the plan's list."""


def line_shards(path: Path, shard_bytes: int) -> list[Shard]:
    """Shards of one file of lines that a stage has written."""
    try:
        cuts = line_cuts(path, shard_bytes)
    except FileNotFoundError:
        raise UserError(
            f"{path}: file not found", "Run the stage that makes it: `dvc repro`."
        ) from None
    return [
        Shard(number, str(path), path.name, start, stop, first_row, size, 0)
        for number, (start, stop, first_row, size) in enumerate(cuts)
    ]


def read_shard_lines(shard: Shard) -> Iterator[bytes]:
    """Yield the lines of a shard as they stand in the file, line ends included.

    Blank lines count and are yielded: line `i` of the shard is line `first_row + i` of the
    file. A byte order mark at the start of the file is left out.
    """
    with Path(shard.path).open("rb") as stream:
        stream.seek(shard.start)
        position = shard.start
        while position < shard.stop:
            line = stream.readline()
            if not line:
                return
            position += len(line)
            yield line.removeprefix(BOM) if position == len(line) else line


def read_shard_batches(shard: Shard, count: int) -> Iterator[list[bytes]]:
    """Yield the lines of a shard, `count` at a time, as they stand in a file of a stage.

    Such a file has no byte order mark: all lines together have the bytes of the shard.
    """
    with Path(shard.path).open("rb", buffering=READ_BYTES) as stream:
        stream.seek(shard.start)
        left = shard.stop - shard.start
        while left > 0 and (batch := list(islice(stream, count))):
            left -= sum(map(len, batch))
            while left < 0:  # the last lines are the next shard's
                left += len(batch.pop())
            yield batch


def line_cuts(path: Path, shard_bytes: int) -> list[Cut]:
    """Where a file of lines is cut.

    Raises:
        FileNotFoundError: there is no such file.
    """
    with path.open("rb") as stream:
        starts = _line_starts(stream, path.stat().st_size, shard_bytes)
        cuts, first_row = [], 1
        for start, stop in pairwise(starts):
            cuts.append((start, stop, first_row, stop - start))
            first_row += _line_ends(stream, start, stop)
    return cuts


def _line_starts(stream: BinaryIO, size: int, shard_bytes: int) -> list[int]:
    """Where shards begin, and the size of the file: at least two positions."""
    starts = [0]
    while (starts[-1] // shard_bytes + 1) * shard_bytes < size:
        boundary = (starts[-1] // shard_bytes + 1) * shard_bytes
        stream.seek(boundary - 1)
        stream.readline()  # ends at the first line start at or after the boundary
        if stream.tell() >= size:
            break
        starts.append(stream.tell())
    return [*starts, size]


def _line_ends(stream: BinaryIO, start: int, stop: int) -> int:
    """How many line feeds lie between two positions."""
    stream.seek(start)
    count = 0
    while start < stop:
        block = stream.read(min(BLOCK_BYTES, stop - start))
        if not block:
            break
        count += block.count(b"\n")
        start += len(block)
    return count
