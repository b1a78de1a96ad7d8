"""Lines: bounds on length, ranges, and nothing but a line feed ends one."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import BinaryIO, cast

import pytest

from pipeline.corpus.execution.watch import Watch, new_slots
from pipeline.corpus.readers import lines
from pipeline.corpus.readers.lines import read_lines

GOOD = {"problem": "1 + 1?", "answer": "2"}
LINE = json.dumps(GOOD).encode()


class Endless(io.RawIOBase):
    """One line of so many bytes between two good ones, made as it is read."""

    def __init__(self, size: int) -> None:
        self._parts = [LINE + b"\n", size, b"\n" + LINE]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._parts:
            return 0
        part = self._parts[0]
        if isinstance(part, bytes):
            self._parts.pop(0)
            buffer[: len(part)] = part
            return len(part)
        taken = min(part, len(buffer))
        buffer[:taken] = b"a" * taken
        self._parts[0] = part - taken
        if part == taken:
            self._parts.pop(0)
        return taken


def test_an_overlong_line_is_dropped_without_being_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_ROW_BYTES", 2**20)
    tracemalloc.start()
    rows = list(read_lines(cast(BinaryIO, io.BufferedReader(Endless(40 * 2**20))), "x"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(row.origin, row.fault and row.fault.reason) for row in rows] == [
        ("x:1", None),
        ("x:2", "too-large"),
        ("x:3", None),
    ]
    assert rows[1].fault is not None
    assert "41,943,041 bytes" in rows[1].fault.detail  # its line feed counts
    assert peak < 8 * 2**20


def test_a_line_of_the_limit_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_ROW_BYTES", len(LINE))
    longer = json.dumps(GOOD | {"a": 1}).encode()
    rows = list(read_lines(io.BytesIO(LINE + b"\n" + longer + b"\n" + LINE), "x"))
    assert [row.value for row in rows] == [GOOD, None, GOOD]


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\u0085", "\x0b", "\x1c"])
def test_other_line_separators_are_text(sign: str) -> None:
    raw = f'{{"t": "a{sign}b"}}\n'.encode() + LINE
    rows = list(read_lines(io.BytesIO(raw), "x"))
    assert [row.origin for row in rows] == ["x:1", "x:2"]
    assert (rows[0].value == {"t": f"a{sign}b"}) == (sign in "\u2028\u2029")


def test_a_range_of_a_file_keeps_its_line_numbers() -> None:
    stream = io.BytesIO(b"\n" + LINE + b"\n\n" + LINE + b"\n" + LINE)
    stream.seek(1)
    rows = list(read_lines(stream, "x", first=2, length=len(LINE) * 2 + 3))
    assert [row.origin for row in rows] == ["x:2", "x:4"]


def test_a_row_to_be_dropped_is_not_parsed_and_keeps_its_place() -> None:
    lines = b'{"a": 1}\n\n[[[[not even json\n{"a": 3}\n'
    rows = list(read_lines(io.BytesIO(lines), "f", watch=Watch(new_slots(), {1: "crash"})))
    assert [row.origin for row in rows] == ["f:1", "f:3", "f:4"]
    assert [(row.value, row.fault and row.fault.reason) for row in rows] == [
        ({"a": 1}, None),
        (None, "crash"),
        ({"a": 3}, None),
    ]
    assert rows[1].excerpt == "[[[[not even json"
