"""Parquet and Arrow tables as rows; what is damaged costs the rows that it holds.

Reads .parquet (by row groups) and the .arrow files of `datasets` (stream or file format)
through pyarrow alone; writes nothing. Called by sources.py. Memory holds some pages or
one record batch.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from pipeline.base.errors import UserError
from pipeline.corpus.execution.watch import ALONE, POISON, TOGETHER, Watch, inline_watch
from pipeline.corpus.rows.strict_json import Row, checked, faulty_row
from pipeline.corpus.rows.text import RowFault, Value, excerpt_of

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
    path: Path,
    source: str,
    groups: range | None = None,
    first: int | None = None,
    watch: Watch | None = None,
) -> Iterator[Row]:
    """Yield the rows of a Parquet file, or of some of its row groups.

    Args:
        groups: row groups to read; None reads all.
        first: index of the first row of these; None counts it.
        watch: is told of each row, and of rows that are taken together; those at which a
            worker ended are taken one by one, and one that must be dropped is not converted.

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
        place = _Place(source, watch or inline_watch())
        place.first = sum(sizes[: chosen.start]) if first is None else first
        for group in chosen:
            yield from _group(file, group, sizes[group], place)


def _group(
    file: pyarrow.parquet.ParquetFile, group: int, size: int, place: _Place
) -> Iterator[Row]:
    """Rows of a row group: `BATCH_ROWS` together, or one by one where that ended a worker."""
    end = place.number + size
    alone = place.had_poison(TOGETHER + place.number, TOGETHER + end)
    phase, step = (ALONE, 1) if alone else (TOGETHER, BATCH_ROWS)
    fault: RowFault | None = None
    try:
        batches = file.iter_batches(batch_size=step, row_groups=[group])
        while place.number < end and fault is None:
            poison = place.watch.enter(phase + place.number)
            if poison is not None:
                fault = RowFault(poison, f"{POISON[poison]}; the row group cannot be read past it")
            elif (batch := next(batches, None)) is not None:
                yield from _rows(batch, place, together=not alone)
            else:
                fault = RowFault("damaged-archive", f"row group {group}: it ends early")
    except MemoryError:
        raise  # Arrow's are among the faults below
    except _FAULTS as error:
        fault = RowFault("damaged-archive", f"row group {group}: {_said(error)}")
    while fault is not None and place.number < end:
        yield place.faulty(fault)


def read_arrow(path: Path, source: str, watch: Watch | None = None) -> Iterator[Row]:
    """Yield the rows of an Arrow file of either format.

    Args:
        watch: as for Parquet.

    Raises:
        UserError: the file has no readable schema.
    """
    try:
        mapped = pyarrow.memory_map(str(path))
        batches = _batches(mapped)
    except _FAULTS as error:
        raise _unusable(path, "Arrow", error) from None
    place = _Place(source, watch or inline_watch())
    with mapped:
        while True:
            poison = place.watch.enter(ALONE + place.number)
            if poison is not None:
                yield place.faulty(RowFault(poison, f"{POISON[poison]}; what follows is lost"))
                return
            batch = next(batches, None)
            if batch is None:
                return
            if isinstance(batch, str):
                detail = f"after row {place.first + place.number - 1}: {batch}"
                yield place.faulty(RowFault("damaged-archive", detail))
                place.number -= 1  # it stands for rows that nobody can count
                continue
            for start in range(0, batch.num_rows, BATCH_ROWS):
                part = batch.slice(start, BATCH_ROWS)
                poison = place.watch.enter(TOGETHER + place.number)
                yield from _rows(part, place, together=poison is None)


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
        except MemoryError:
            raise
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
        except MemoryError:
            raise
        except _FAULTS as error:
            yield f"{_said(error)}; what follows is lost"
            return


@dataclass
class _Place:
    """Names and numbers the rows of one file."""

    source: str
    watch: Watch
    first: int = 0
    """Index of the first row that is read."""
    number: int = 0
    """Rows so far."""

    def origin(self) -> str:
        """Of the next row."""
        return f"{self.source}#{self.first + self.number}"

    def had_poison(self, start: int, stop: int) -> bool:
        """Whether the work that one of these numbers stands for has ended a worker."""
        return any(start <= number < stop for number in self.watch.poison)

    def faulty(self, fault: RowFault) -> Row:
        """The next row, unread."""
        row = faulty_row(self.source, self.origin(), fault.reason, fault.detail)
        self.number += 1
        return row


def _rows(batch: pyarrow.RecordBatch, place: _Place, together: bool) -> Iterator[Row]:
    """Rows of a batch; one that cannot be converted does not cost its neighbours.

    Args:
        together: convert all at once, which is faster.
    """
    names = batch.schema.names
    twice = next((name for name in names if names.count(name) > 1), None)
    values = _converted(batch) if together and twice is None else []
    for position in range(batch.num_rows):
        poison = place.watch.enter(place.number)
        if poison is not None:
            yield place.faulty(RowFault(poison, POISON[poison]))
        elif twice is not None:
            detail = f"two columns are named `{excerpt_of(twice)}`"
            yield place.faulty(RowFault("duplicate-key", detail))
        else:
            given = values[position] if values else _alone(batch, position)
            yield _row(given, place.source, place.origin())
            place.number += 1


def _converted(batch: pyarrow.RecordBatch) -> list[dict[str, Any]]:
    """All rows at once; none if that cannot be, for then each is tried by itself."""
    try:
        batch.validate(full=True)
        rows: list[dict[str, Any]] = batch.to_pylist()
    except MemoryError:
        raise
    except (ValueError, *_FAULTS):
        return []
    return rows


def _alone(batch: pyarrow.RecordBatch, position: int) -> dict[str, Any] | RowFault:
    one = batch.slice(position, 1)
    try:
        one.validate(full=True)
        row: dict[str, Any] = one.to_pylist()[0]
        return row
    except UnicodeDecodeError as error:
        return RowFault("not-utf8", _said(error))
    except MemoryError:
        raise
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
