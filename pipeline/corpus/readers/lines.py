"""JSON lines: one row a line, whatever stands in the lines around it.

Reads a stream that sources.py has opened; writes nothing. Only a line feed ends a line
(U+2028 and the like are text). Memory holds one line of at most `MAX_ROW_BYTES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from pipeline.corpus.execution.watch import POISON, Watch, inline_watch
from pipeline.corpus.readers.archives import ArchiveDamage
from pipeline.corpus.rows.strict_json import MAX_ROW_BYTES, Row, decode, faulty_row, parse_row
from pipeline.corpus.rows.text import RowFault

BOM = b"\xef\xbb\xbf"
_PIECE_BYTES = 2**20
_EXCERPT_BYTES = 4000


def read_lines(
    stream: BinaryIO,
    source: str,
    first: int = 1,
    length: int | None = None,
    watch: Watch | None = None,
) -> Iterator[Row]:
    """Yield a row for every line that is not blank.

    Args:
        stream: stands at the start of a line.
        first: number of that line, from 1.
        length: bytes to read, up to the start of another line; None reads to the end.
        watch: is told of each row before it is read; a row that must be dropped is not parsed.
    """
    watch = watch or inline_watch()
    number, left, row = first, length, 0
    while left is None or left > 0:
        origin = f"{source}:{number}"
        poison = watch.enter(row)
        try:
            raw = stream.readline(MAX_ROW_BYTES + 1)
            if len(raw) > MAX_ROW_BYTES and not raw.endswith(b"\n"):
                size = len(raw) + _skip_line(stream)
                yield faulty_row(source, origin, "too-large", *_too_large(raw, size))
                number, left, row = number + 1, None if left is None else left - size, row + 1
                continue
        except ArchiveDamage as damage:
            detail = f"{damage}; what follows line {number - 1} is lost"
            yield faulty_row(source, origin, "damaged-archive", detail)
            return
        if not raw:
            return
        line = raw.removeprefix(BOM) if number == 1 else raw
        if not line.isspace() and line:
            yield _left_out(line, source, origin, poison) if poison else _row(line, source, origin)
            row += 1
        number, left = number + 1, None if left is None else left - len(raw)


def _too_large(raw: bytes, size: int) -> tuple[str, str]:
    """(detail, text) of a line that is too long to be held."""
    return f"{size:,} bytes; read are rows of at most {MAX_ROW_BYTES:,}", _start(raw)


def _left_out(line: bytes, source: str, origin: str, poison: str) -> Row:
    """The row of a line that must be dropped unparsed."""
    return faulty_row(source, origin, poison, POISON[poison], _start(line))


def _start(raw: bytes) -> str:
    return raw[:_EXCERPT_BYTES].decode("utf-8", "replace")


def _skip_line(stream: BinaryIO) -> int:
    """Pass over the rest of a line; its size in bytes."""
    size = 0
    while piece := stream.readline(_PIECE_BYTES):
        size += len(piece)
        if piece.endswith(b"\n"):
            break
    return size


def _row(line: bytes, source: str, origin: str) -> Row:
    text = ""
    try:
        text = decode(line)
        return Row(source, origin, parse_row(text), None, text)
    except RowFault as fault:
        if fault.reason == "not-json" and not line.endswith(b"\n"):
            fault = RowFault(fault.reason, f"{fault.detail} (last line is cut)")
        return Row(source, origin, None, fault, (text or repr(line[:160]))[:_EXCERPT_BYTES])
