"""Parquet and Arrow tables as rows; what is damaged costs the rows that it holds.

Reads .parquet (by row groups) and the .arrow files of `datasets` (stream or file format)
through pyarrow alone; writes nothing. Called by sources.py. Memory holds some pages or
one record batch.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from pipeline.base.errors import UserError
from pipeline.corpus.strict_json import Row, checked, faulty_row
from pipeline.corpus.text import RowFault, Value, excerpt_of

BATCH_ROWS = 64
_FILE_MAGIC = b"ARROW1"
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_FAULTS = (pyarrow.ArrowException, OSError, EOFError)


def _said(error: BaseException) -> str:
    return excerpt_of(" ".join(str(error).split()), 160)


def _unusable(path: Path, kind: str, error: BaseException) -> UserError:
    return UserError(
        f"{path}: {kind} cannot be read ({_said(error)})", "Copy or export the file again."
    )


def read_parquet(
    path: Path, source: str, groups: range | None = None, first: int | None = None
) -> Iterator[Row]:
    """Yield the rows of a Parquet file, or of some of its row groups.

    Args:
        groups: row groups to read; None reads all.
        first: index of the first row of these; None counts it.

    Raises:
        UserError: the file is no Parquet or has lost its footer.
    """
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except _FAULTS as error:
        raise _unusable(path, "Parquet", error) from None
    with file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        chosen = range(len(sizes)) if groups is None else groups
        index = sum(sizes[: chosen.start]) if first is None else first
        for group in chosen:
            yield from _group(file, group, sizes[group], source, index)
            index += sizes[group]


def _group(
    file: pyarrow.parquet.ParquetFile, group: int, size: int, source: str, index: int
) -> Iterator[Row]:
    done = 0
    try:
        for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=[group]):
            yield from _rows(batch, source, index + done)
            done += batch.num_rows
    except _FAULTS as error:
        detail = f"row group {group}: {_said(error)}"
        for lost in range(index + done, index + size):
            yield faulty_row(source, f"{source}#{lost}", "damaged-archive", detail)


def read_arrow(path: Path, source: str) -> Iterator[Row]:
    """Yield the rows of an Arrow file of either format.

    Raises:
        UserError: the file has no readable schema.
    """
    try:
        mapped = pyarrow.memory_map(str(path))
        batches = _batches(mapped)
    except _FAULTS as error:
        raise _unusable(path, "Arrow", error) from None
    with mapped:
        index = 0
        for batch in batches:
            if isinstance(batch, str):
                detail = f"after row {index - 1}: {batch}"
                yield faulty_row(source, f"{source}#{index}", "damaged-archive", detail)
                continue
            for start in range(0, batch.num_rows, BATCH_ROWS):
                yield from _rows(batch.slice(start, BATCH_ROWS), source, index + start)
            index += batch.num_rows


def _batches(mapped: pyarrow.MemoryMappedFile) -> Iterator[pyarrow.RecordBatch | str]:
    """Record batches, or what is wrong in place of one."""
    size = mapped.size()
    if mapped.read_at(len(_FILE_MAGIC), 0) == _FILE_MAGIC:
        return _file_batches(pyarrow.ipc.open_file(mapped))
    ended = mapped.read_at(min(size, 8), max(0, size - 8)) == _END_OF_STREAM
    mapped.seek(0)
    return _stream_batches(pyarrow.ipc.open_stream(mapped), ended)


def _file_batches(
    reader: pyarrow.ipc.RecordBatchFileReader,
) -> Iterator[pyarrow.RecordBatch | str]:
    for number in range(reader.num_record_batches):
        try:
            yield reader.get_batch(number)
        except _FAULTS as error:
            yield f"record batch {number}: {_said(error)}"


def _stream_batches(
    reader: pyarrow.ipc.RecordBatchStreamReader, ended: bool
) -> Iterator[pyarrow.RecordBatch | str]:
    while True:
        try:
            yield reader.read_next_batch()
        except StopIteration:
            if not ended:
                yield "the file is cut: it has no end mark"
            return
        except _FAULTS as error:
            yield f"{_said(error)}; what follows is lost"
            return


def _rows(batch: pyarrow.RecordBatch, source: str, index: int) -> Iterator[Row]:
    """Rows of a batch; one that cannot be converted does not cost its neighbours."""
    names = batch.schema.names
    twice = next((name for name in names if names.count(name) > 1), None)
    values: list[dict[str, Any]] = []
    try:
        batch.validate(full=True)
        values = batch.to_pylist() if twice is None else []
    except (ValueError, *_FAULTS):
        pass  # then row by row
    for position in range(batch.num_rows):
        origin = f"{source}#{index + position}"
        if twice is not None:
            detail = f"two columns are named `{excerpt_of(twice)}`"
            yield faulty_row(source, origin, "duplicate-key", detail)
        else:
            yield _row(values[position] if values else _alone(batch, position), source, origin)


def _alone(batch: pyarrow.RecordBatch, position: int) -> dict[str, Any] | RowFault:
    one = batch.slice(position, 1)
    try:
        one.validate(full=True)
        row: dict[str, Any] = one.to_pylist()[0]
        return row
    except UnicodeDecodeError as error:
        return RowFault("not-utf8", _said(error))
    except (ValueError, *_FAULTS) as error:
        reason = "not-utf8" if "UTF8" in str(error) else "wrong-type"
        return RowFault(reason, _said(error))


def _row(given: dict[str, Any] | RowFault, source: str, origin: str) -> Row:
    text = "" if isinstance(given, RowFault) else _shown(given)
    try:
        if isinstance(given, RowFault):
            raise given
        return Row(source, origin, checked(_plain(given)), None, text)
    except RowFault as fault:
        return Row(source, origin, None, fault, text)


def _shown(given: dict[str, Any]) -> str:
    """What a person would know the row by: its first text."""
    texts = (value for value in given.values() if isinstance(value, str))
    return next(texts, None) or str(next(iter(given.values()), ""))[:2000]


def _plain(value: Any) -> Value:
    """A table's value as JSON would hold it; NaN, the mark of a missing number, is null."""
    if value is None or isinstance(value, (str, bool, int, Decimal)):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return _text_of(value)
    return value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else str(value)


def _text_of(value: bytes) -> str:
    """Bytes as text, which some writers store so; images and the like as a note."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return f"<{len(value)} bytes>"
