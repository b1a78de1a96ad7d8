"""JSON that is not lines: an array of rows, an object that holds rows, or one row.

Reads a stream that sources.py has opened; writes nothing. Rows are taken one at a time
through window.py. An object is: rows under one of `ROW_LISTS`; or rows by name, if every
member is an object; or else one row. Several values one after the other are rows each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from pipeline.corpus.execution.watch import POISON, TOGETHER, Watch, inline_watch
from pipeline.corpus.readers.archives import ArchiveDamage
from pipeline.corpus.readers.lines import BOM
from pipeline.corpus.readers.window import BLANKS, Cut, Window
from pipeline.corpus.rows.strict_json import Row, checked, faulty_row, unique
from pipeline.corpus.rows.text import RowFault, Value, printable

ROW_LISTS = ("rows", "data", "train", "examples", "instances", "items", "records")
"""Keys under which one object holds a list of rows."""

MAX_UNDECIDED = 16 * 2**20
"""Characters of an object that are held until it shows whether it is a row or holds rows."""

_LOOK_BYTES = 2**20
_LOOK_PIECE = 2**14


def shape_of(stream: BinaryIO) -> str:
    """`array`, `object` or `lines`, from the first two lines that are not blank."""
    first, second = _first_lines(stream)
    if first[:1] == b"[" and (first[1:].lstrip()[:1] in (b"", b"{", b"]")):
        return "lines" if second and _is_whole(first) else "array"
    if first[:1] == b"{":
        broken = first[-1:] not in (b"[", b"{", b",", b":") and second[:1] == b"{"
        lines = second and (_is_whole(first) or (broken and _is_whole(second)))
        return "lines" if lines else "object"
    return "lines"


def _first_lines(stream: BinaryIO) -> tuple[bytes, bytes]:
    """The first two lines that are not blank, stripped, as far as `_LOOK_BYTES` reach."""
    seen = b""
    try:
        while len(seen) < _LOOK_BYTES and (piece := stream.read(_LOOK_PIECE)):
            seen += piece
    except ArchiveDamage:
        pass  # judged by what stands before the damage
    found = [line.strip() for line in seen.removeprefix(BOM).split(b"\n") if line.strip()]
    first, second, *_ = (*found[:2], b"", b"")
    return first, second


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


@dataclass
class _Place:
    """Names the rows of one file."""

    source: str
    watch: Watch
    index: int = 0

    def enter(self) -> str | None:
        """Work on the next row begins; why it must be dropped unseen, or None."""
        return self.watch.enter(self.index)

    def take(self, window: Window) -> tuple[Row, Value | RowFault, str]:
        """The next row from the place where it begins, and what `Window.take` gives of it."""
        poison = self.enter()
        value, text = _taken(window, poison)
        return self.row(value, text), value, text

    def row(self, value: Value | RowFault, text: str, name: str | None = None) -> Row:
        """The next row: `source#index`, or `source#name`."""
        origin = f"{self.source}#{self.index if name is None else printable(name)}"
        self.index += 1
        try:
            if isinstance(value, RowFault):
                raise value
            return Row(self.source, origin, _unwrapped(checked(value)), None, text)
        except RowFault as fault:
            return Row(self.source, origin, None, fault, text[:2000])

    def end(self, reason: str, detail: str, text: str = "") -> Row:
        """The last row: what cannot be read after all others."""
        return faulty_row(self.source, f"{self.source}#{self.index}", reason, detail, text)


def _unwrapped(row: dict[str, Value]) -> dict[str, Value]:
    """`{"row_idx": 0, "row": {...}}`, as data set servers send rows, → the inner row."""
    inner = row.get("row")
    return inner if isinstance(inner, dict) else row


def _taken(window: Window, poison: str | None) -> tuple[Value | RowFault, str]:
    """`Window.take`, unless the value must be passed over."""
    if poison is None:
        return window.take()
    text = window.pass_over()
    return RowFault(poison, POISON[poison]), text


def _unless(poison: str | None, value: Value | RowFault) -> Value | RowFault:
    return value if poison is None else RowFault(poison, POISON[poison])


def read_values(stream: BinaryIO, source: str, watch: Watch | None = None) -> Iterator[Row]:
    """Yield the rows of an array, an object or a sequence of values.

    Args:
        watch: is told of each row, or of each member of an object that may be one, before
            it is parsed; one that must be dropped is passed over.
    """
    place = _Place(source, watch or inline_watch())
    window: Window | None = None
    try:
        window = Window(stream)
        opening = window.peek()
        if opening == "[":
            yield from _elements(window, place)
        elif opening == "{":
            yield from _object(window, place)
        yield from _sequence(window, place, after=opening)
    except Cut as cut:
        text = window.excerpt() if window else ""
        yield place.end(cut.reason, str(cut), text)
    except ArchiveDamage as damage:
        yield place.end("damaged-archive", f"{damage}; what follows is lost")


def _elements(window: Window, place: _Place) -> Iterator[Row]:
    """Rows of the array that opens here."""
    window.step()
    while (sign := window.peek(BLANKS + ",")) != "]":
        if not sign:
            raise Cut("end of file inside the array")
        row, value, text = place.take(window)
        yield row
        if isinstance(value, RowFault) and value.reason == "not-json":
            _require_order(window, text)
    window.step()


def _require_order(window: Window, text: str) -> None:
    """Refuse to read on if a broken row was not even a pair of brackets with a comma behind."""
    if text[0] not in "{[" or window.peek() not in ("", ",", "]"):
        raise Cut(f"no row begins with {text[:20]!r}")


def _sequence(window: Window, place: _Place, after: str) -> Iterator[Row]:
    """Further values behind the first; behind an array there must be none."""
    while window.peek():
        if after == "[":
            raise Cut("text after the end of the array")
        if window.peek() != "{":
            raise Cut(f"{window.excerpt()[:20]!r} where an object is expected")
        yield place.take(window)[0]


@dataclass
class _Members:
    """The members of an object as long as it may still be one row."""

    pairs: list[tuple[str, Value | RowFault, str]] = field(default_factory=list)
    size: int = 0

    def add(self, name: str, value: Value | RowFault, text: str) -> None:
        self.pairs.append((name, value, text))
        self.size += len(name) + len(text)

    def are_rows(self) -> bool:
        """Whether every member is an object."""
        return bool(self.pairs) and all(text.startswith("{") for _, _, text in self.pairs)

    def as_rows(self, place: _Place) -> Iterator[Row]:
        """Each member as a row."""
        for name, value, text in self.pairs:
            poison = place.enter()
            yield place.row(_unless(poison, value), text, name)

    def as_row(self) -> tuple[Value | RowFault, str]:
        """All members as one value, and some of its text."""
        text = "{" + ", ".join(f'"{name}": {text[:400]}' for name, _, text in self.pairs[:20])
        faults = [value for _, value, _ in self.pairs if isinstance(value, RowFault)]
        if faults:
            return faults[0], text
        try:
            return unique([(name, value) for name, value, _ in self.pairs]), text
        except RowFault as fault:
            return fault, text


def _object(window: Window, place: _Place) -> Iterator[Row]:
    """Rows of the object that opens here: those in its lists, its members, or itself."""
    members, has_list, by_name, number = _Members(), False, False, 0
    window.step()
    while (sign := window.peek(BLANKS + ",")) != "}":
        if sign != '"':
            raise Cut("end of file inside the object" if not sign else f"`{sign}` is no key")
        name, spelt = window.take()
        if not isinstance(name, str):
            raise Cut(f"{spelt[:40]} is no key")
        if window.peek(BLANKS + ":") == "[" and name in ROW_LISTS and _holds_rows(window):
            yield from _elements(window, place)
            has_list = True
            continue
        members.add(name, *_taken(window, place.watch.enter(TOGETHER + number)))
        number += 1
        if has_list:
            members = _Members()
        elif members.size > MAX_UNDECIDED or by_name:
            if not by_name and not members.are_rows():
                raise Cut(f"an object of over {MAX_UNDECIDED:,} characters", "too-large")
            by_name = True
            yield from members.as_rows(place)
            members = _Members()
    window.step()
    if has_list or by_name:
        return
    if members.are_rows() and not window.peek():
        yield from members.as_rows(place)
    else:
        poison = place.enter()
        value, text = members.as_row()
        yield place.row(_unless(poison, value), text)


def _holds_rows(window: Window) -> bool:
    """Whether the list that opens here begins with an object."""
    return window.peek(beyond=1) == "{"
