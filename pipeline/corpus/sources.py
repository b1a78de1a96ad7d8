"""Files of rows, read one row at a time; a broken row never ends the reading.

Reads .jsonl and .ndjson (streamed), .json (an array, an object of rows, one row, or
lines) and .parquet, a single file or a folder of them; writes nothing. Called by
`python -m pipeline.filter` and `python -m pipeline.decontaminate`. Every row has an
origin, `file:line` or `file#index`, and either a value or the reason why not (see
strict_json.py).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from pipeline.base.errors import UserError
from pipeline.corpus.strict_json import Row, checked, decode, make_row, parse_row
from pipeline.corpus.text import RowFault, Value, printable

LINE_SUFFIXES = (".jsonl", ".ndjson")
SUFFIXES = (*LINE_SUFFIXES, ".json", ".parquet")
ROW_LISTS = ("rows", "data", "train", "examples", "instances", "items", "records")
"""Keys under which one object holds the list of all rows."""

BATCH_ROWS = 64
BOM = b"\xef\xbb\xbf"


def data_files(path: Path) -> list[Path]:
    """The files under a path, sorted by name; hidden ones are left out.

    Raises:
        UserError: nothing there, or a folder without a file of a known kind.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"{path}: no such file or folder", "Correct `data.sources` in params.yaml.")
    found = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]
    if not found:
        raise UserError(
            f"{path}: no data file in this folder (looked for {', '.join(SUFFIXES)})",
            "Put the traces there or correct `data.sources` in params.yaml.",
        )
    return found


def source_names(paths: list[Path]) -> list[str]:
    """Short names that tell the files apart: the path below what all have in common."""
    if len(paths) == 1:
        return [paths[0].name]
    common = os.path.commonpath([path.absolute().parent for path in paths])
    return [str(path.absolute().relative_to(common)) for path in paths]


def read_rows_of(path: Path, source: str) -> Iterator[Row]:
    """Yield every row of one file under the name `source`.

    Raises:
        UserError: the file is missing or is not of a kind that can be read at all.
    """
    if not path.is_file():
        raise UserError(f"{path}: file not found", "Run again so that the data are listed anew.")
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _read_parquet(path, source)
    if suffix == ".json" or (suffix in LINE_SUFFIXES and _opens_array(path)):
        return _read_json(path, source)
    return _read_lines(path, source)


def _opens_array(path: Path) -> bool:
    """Whether a file of lines is one array: its first line is no whole row by itself."""
    with path.open("rb") as stream:
        lines = (line for line in stream if line.strip(BOM + b" \t\r\n"))
        first, second = next(lines, b""), next(lines, b"")
    text = first.removeprefix(BOM).strip()
    if not text.startswith(b"["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return not second


def _read_lines(path: Path, source: str) -> Iterator[Row]:
    with path.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            line = raw.removeprefix(BOM) if number == 1 else raw
            if not line.strip():
                continue
            origin = f"{source}:{number}"
            text = ""
            try:
                text = decode(line.rstrip(b"\r\n"))
                yield make_row(source, origin, parse_row(text), None, text)
            except RowFault as fault:
                cut = fault.reason == "not-json" and not raw.endswith(b"\n")
                said = RowFault(fault.reason, fault.detail + " (last line is cut)" * cut)
                yield make_row(source, origin, None, said, text or repr(line[:160]))


def _read_json(path: Path, source: str) -> Iterator[Row]:
    try:
        text = decode(path.read_bytes().removeprefix(BOM))
    except RowFault:
        yield from _read_lines(path, source)  # names the line, keeps the other rows
        return
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] == "[":
        yield from _elements(text, start, source)
        return
    try:
        whole = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        yield from _read_lines(path, source)
        return
    key = _list_key(whole)
    if key is not None:
        spans = {name: place for name, place, _ in _members(text, start)}
        yield from _elements(text, spans[key], source)
    elif isinstance(whole, dict) and whole and all(isinstance(v, dict) for v in whole.values()):
        for name, place, end in _members(text, start):
            yield _given(source, f"{source}#{printable(name)}", text[place:end])
    else:
        yield _given(source, f"{source}#0", text)


def _given(source: str, origin: str, text: str) -> Row:
    try:
        return make_row(source, origin, _unwrapped(parse_row(text.strip())), None, text)
    except RowFault as fault:
        return make_row(source, origin, None, fault, text)


def _list_key(whole: Value) -> str | None:
    """The key under which one object holds all rows; None if it does not."""
    if not isinstance(whole, dict):
        return None
    for key in ROW_LISTS:
        rows = whole.get(key)
        if isinstance(rows, list) and rows and isinstance(rows[0], dict):
            return key
    return None


def _unwrapped(row: dict[str, Value]) -> dict[str, Value]:
    """`{"row_idx": 0, "row": {...}}`, as data set servers send rows, → the inner row."""
    inner = row.get("row")
    return inner if isinstance(inner, dict) else row


_SCANNER = json.JSONDecoder(strict=False)
"""Finds where a value ends; the strict reader then judges that span alone."""


def _skip(text: str, position: int, characters: str) -> int:
    while position < len(text) and text[position] in characters:
        position += 1
    return position


def _members(text: str, position: int) -> Iterator[tuple[str, int, int]]:
    """(key, start, end) of every member of a well-formed object, equal keys included."""
    position = _skip(text, position + 1, " \t\r\n")
    while text[position] != "}":
        name, end = _SCANNER.raw_decode(text, position)
        start = _skip(text, end, " \t\r\n:")
        _, end = _SCANNER.raw_decode(text, start)
        yield name, start, end
        position = _skip(text, end, " \t\r\n,")


def _elements(text: str, position: int, source: str) -> Iterator[Row]:
    """Rows of the array at `position`; what follows a syntax fault is one unreadable row."""
    index = 0
    nested = bool(text[:position].strip())
    position += 1
    while True:
        position = _skip(text, position, " \t\r\n,")
        origin = f"{source}#{index}"
        if text[position : position + 1] == "]":
            rest = "" if nested else text[position + 1 :].strip()
            fault = RowFault("not-json", "text after the end of the array")
        else:
            try:
                _, end = _SCANNER.raw_decode(text, position)
                yield _given(source, origin, text[position:end])
                position, index = end, index + 1
                continue
            except (ValueError, RecursionError) as error:
                rest = text[position:] or "end of file"
                fault = RowFault("not-json", f"{printable(str(error))}; what follows is lost")
        if rest:
            yield make_row(source, origin, None, fault, rest)
        return


def _read_parquet(path: Path, source: str) -> Iterator[Row]:
    index = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                for position in range(batch.num_rows):
                    yield _parquet_row(batch, position, source, f"{source}#{index}")
                    index += 1
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(
            f"{path}: Parquet cannot be read after row {index} ({' '.join(str(error).split())})",
            "Copy or export the file again.",
        ) from None


def _parquet_row(batch: pyarrow.RecordBatch, position: int, source: str, origin: str) -> Row:
    try:
        value = _plain(batch.slice(position, 1).to_pylist()[0])
        return make_row(source, origin, checked(value), None, str(next(iter(value.values()), "")))
    except UnicodeDecodeError as error:
        return make_row(source, origin, None, RowFault("not-utf8", str(error)), "")
    except RowFault as fault:
        return make_row(source, origin, None, fault, str(value))


def _plain(value: Any) -> Value:
    """A Parquet value as JSON would hold it; NaN, the mark of a missing number, is null."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    if value is None or isinstance(value, (str, bool, int, float, Decimal)):
        return value
    return str(value)
