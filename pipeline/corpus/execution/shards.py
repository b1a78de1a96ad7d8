"""Cuts input files into shards, the units of work and of restart; reads lines of one.

A file of lines is cut where a line begins: a line belongs to the shard in which its first
byte lies. Parquet is cut between row groups; any other file is one shard. Every file has
at least one shard, if an empty one. Reads the files, writes nothing. Called by the corpus
stages; readers follow `start`, `stop` and `first_row`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import pyarrow
import pyarrow.parquet

from pipeline.base.errors import UserError

LINE_SUFFIXES = (".jsonl", ".ndjson")
BOM = b"\xef\xbb\xbf"
BLOCK_BYTES = 8 * 2**20


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


def plan_shards(files: Sequence[tuple[Path, str, int]], shard_bytes: int) -> list[Shard]:
    """Shards of all files, in order.

    Args:
        files: path, source name and index of each file's entry.
        shard_bytes: wanted size of a shard in bytes, at least 1.

    Raises:
        UserError: a file is missing, or is Parquet that cannot be read.
    """
    shards: list[Shard] = []
    for path, source, entry in files:
        try:
            cuts = _cuts(path, shard_bytes)
        except FileNotFoundError:
            raise UserError(
                f"{path}: file not found", "Run again so that the data are listed anew."
            ) from None
        for start, stop, first_row, size in cuts:
            number = len(shards)
            shards.append(Shard(number, str(path), source, start, stop, first_row, size, entry))
    return shards


def line_shards(path: Path, shard_bytes: int) -> list[Shard]:
    """Shards of one file of lines that a stage has written."""
    try:
        cuts = _line_cuts(path, shard_bytes)
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


def opens_array(path: Path) -> bool:
    """Whether a file of lines is really one JSON array: its first line is no whole row."""
    with path.open("rb") as stream:
        first = _next_text(stream)
        if not first.startswith(b"["):
            return False
        try:
            json.loads(first)
        except (ValueError, RecursionError):
            return True
        return not _next_text(stream)


def _next_text(stream: BinaryIO) -> bytes:
    """The next line that is not blank, stripped; empty at the end."""
    for line in stream:
        text = line.removeprefix(BOM).strip()
        if text:
            return text
    return b""


Cut = tuple[int, int, int, int]
"""Start, stop, first row, bytes."""


def _cuts(path: Path, shard_bytes: int) -> list[Cut]:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet_cuts(path, shard_bytes)
    if suffix in LINE_SUFFIXES and not opens_array(path):
        return _line_cuts(path, shard_bytes)
    size = path.stat().st_size
    return [(0, size, 1 if suffix in LINE_SUFFIXES else 0, size)]


def _line_cuts(path: Path, shard_bytes: int) -> list[Cut]:
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


def _parquet_cuts(path: Path, shard_bytes: int) -> list[Cut]:
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            about = file.metadata
            groups = [about.row_group(i) for i in range(about.num_row_groups)]
            sizes = [_group_bytes(group) for group in groups]
            rows = [group.num_rows for group in groups]
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise UserError(
            f"{path}: Parquet cannot be read ({' '.join(str(error).split())})",
            "Copy or export the file again.",
        ) from None
    cuts: list[Cut] = []
    start = 0
    while start < len(sizes) or not cuts:
        stop, size = start, 0
        while stop < len(sizes) and (size == 0 or size + sizes[stop] <= shard_bytes):
            size += sizes[stop]
            stop += 1
        cuts.append((start, stop, sum(rows[:start]), size))
        start = max(stop, start + 1)
    return cuts


def _group_bytes(group: pyarrow.parquet.RowGroupMetaData) -> int:
    """Compressed size of a row group."""
    return sum(group.column(i).total_compressed_size for i in range(group.num_columns))
