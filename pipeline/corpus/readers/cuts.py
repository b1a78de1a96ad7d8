"""Cuts the files of a run into shards; every kind of file has a cut of its own.

Lines are cut where a line begins (execution/shards.py), Parquet between row groups; any
other file is one shard, and so is a file of lines that holds one JSON array. Reads the
files, writes nothing. Called by `python -m pipeline.filter`; sources.py reads a shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow
import pyarrow.parquet

from pipeline.base.errors import UserError
from pipeline.corpus.execution.shards import Cut, Shard, line_cuts
from pipeline.corpus.readers.archives import open_stream
from pipeline.corpus.readers.arrays import shape_of
from pipeline.corpus.readers.kinds import LINE_SUFFIXES


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


def opens_array(path: Path) -> bool:
    """Whether a file of lines is really one JSON array; looks at 1 MiB at most."""
    with open_stream(path) as stream:
        return shape_of(stream) == "array"


def _cuts(path: Path, shard_bytes: int) -> list[Cut]:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet_cuts(path, shard_bytes)
    if suffix in LINE_SUFFIXES and not opens_array(path):
        return line_cuts(path, shard_bytes)
    size = path.stat().st_size
    return [(0, size, 1 if suffix in LINE_SUFFIXES else 0, size)]


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
