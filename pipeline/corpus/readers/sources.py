"""Files of rows, read one row at a time; a broken row never ends the reading.

Picks the reader of a file by its ending (readers/); writes nothing. Called by
`python -m pipeline.filter`, `.semantic` and `.decontaminate`. Every row has an origin,
`file:line` or `file#index`, and either a value or the reason why not (strict_json.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pipeline.base.errors import UserError
from pipeline.corpus.execution.shards import Shard
from pipeline.corpus.execution.watch import Watch
from pipeline.corpus.readers.archives import open_stream
from pipeline.corpus.readers.arrays import read_values, shape_of
from pipeline.corpus.readers.cuts import opens_array
from pipeline.corpus.readers.kinds import LINE_SUFFIXES, ending_of
from pipeline.corpus.readers.lines import read_lines
from pipeline.corpus.readers.tables import read_arrow, read_parquet
from pipeline.corpus.rows.strict_json import Row


def source_names(paths: list[Path]) -> list[str]:
    """Short names that tell the files apart: the path below what all have in common."""
    if len(paths) == 1:
        return [paths[0].name]
    common = os.path.commonpath([path.absolute().parent for path in paths])
    return [str(path.absolute().relative_to(common)) for path in paths]


def read_rows_of(path: Path, source: str, watch: Watch | None = None) -> Iterator[Row]:
    """Yield every row of one file under the name `source`.

    Args:
        watch: as for `read_shard`.

    Raises:
        UserError: the file is missing, or is a table that cannot be opened.
    """
    if not path.is_file():
        raise UserError(f"{path}: file not found", "Run again so that the data are listed anew.")
    ending = ending_of(path)
    if ending == ".parquet":
        return read_parquet(path, source, watch=watch)
    if ending == ".arrow":
        return read_arrow(path, source, watch)
    return _read_text(path, source, ending, watch)


def _read_text(path: Path, source: str, ending: str, watch: Watch | None) -> Iterator[Row]:
    with open_stream(path) as stream:
        shape = shape_of(stream)
    if shape == "object" and ending.removesuffix(".gz").removesuffix(".zst") != ".json":
        shape = "lines"
    with open_stream(path) as stream:
        if shape == "lines":
            yield from read_lines(stream, source, watch=watch)
        else:
            yield from read_values(stream, source, watch)


def read_shard(shard: Shard, watch: Watch | None = None) -> Iterator[Row]:
    """Yield the rows of one shard; all shards of a file give the rows of `read_rows_of`.

    Lines are read from byte `start` to `stop`, Parquet from row group `start` to `stop`,
    any other file whole.

    Args:
        watch: is told of each row before it is read, and told that it is done by the
            caller. A row at which a worker has ended is not parsed: it has the fault
            `timeout`, `memory` or `crash`.

    Raises:
        UserError: as `read_rows_of`.
    """
    path = Path(shard.path)
    ending = ending_of(path)
    if not path.is_file():
        return read_rows_of(path, shard.source)
    if ending == ".parquet":
        groups = range(shard.start, shard.stop)
        return read_parquet(path, shard.source, groups, shard.first_row, watch)
    part = shard.start > 0 or shard.stop < path.stat().st_size
    if ending in LINE_SUFFIXES and (part or not opens_array(path)):
        return _read_range(path, shard, watch)
    return read_rows_of(path, shard.source, watch)


def _read_range(path: Path, shard: Shard, watch: Watch | None) -> Iterator[Row]:
    with path.open("rb") as stream:
        stream.seek(shard.start)
        length = shard.stop - shard.start
        yield from read_lines(stream, shard.source, shard.first_row, length, watch)
