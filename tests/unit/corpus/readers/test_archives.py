"""Compressed rows are the plain ones; damage costs what lies behind it and is counted once."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.corpus.readers.sources import read_rows_of
from pipeline.corpus.rows.strict_json import UNREADABLE, Row

ROWS = [
    {"problem": f"What is {n} + {n}?", "note": hashlib.sha256(str(n).encode()).hexdigest()}
    for n in range(20_000)
]
TEXT = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def packed(raw: bytes, ending: str) -> bytes:
    if ending == ".gz":
        return gzip.compress(raw, 1)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(raw)
    return bytes(sink.getvalue())


def read(path: Path, content: bytes) -> list[Row]:
    path.write_bytes(content)
    return list(read_rows_of(path, "x"))


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_members_one_after_the_other_are_one_file(tmp_path: Path, ending: str) -> None:
    half = TEXT.index(b"\n", len(TEXT) // 2) - 7  # a line goes on in the second member
    content = packed(TEXT[:half], ending) + packed(TEXT[half:], ending)
    rows = read(tmp_path / f"x.jsonl{ending}", content)
    assert [row.value for row in rows] == ROWS
    assert rows[-1].origin == "x:20000"
    array = json.dumps(ROWS[:100], indent=1).encode()
    rows = read(tmp_path / f"x.json{ending}", packed(array, ending))
    assert [row.value for row in rows] == ROWS[:100]


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("broken", ["cut", "middle"])
def test_damage_keeps_the_rows_before_it(tmp_path: Path, ending: str, broken: str) -> None:
    content = packed(TEXT, ending)
    place = len(content) // 2
    rest = b"" if broken == "cut" else b"\xff" * 150_000 + content[place + 150_000 :]
    content = content[:place] + rest
    rows = read(tmp_path / f"x.jsonl{ending}", content)
    good = [row.value for row in rows if row.value is not None]
    fault = rows[-1].fault
    assert fault is not None
    assert (fault.reason, "damaged-archive" in UNREADABLE) == ("damaged-archive", True)
    line = rows[-1].origin.removeprefix("x:")
    assert f"line {int(line) - 1} is lost" in fault.detail
    before = good if broken == "cut" or ending == ".zst" else good[: len(ROWS) // 3]
    assert before == ROWS[: len(before)]
    assert len(before) >= len(ROWS) // 3
    assert len([row for row in rows if row.fault and row.fault.reason == "damaged-archive"]) == 1


def test_a_cut_loses_no_row_that_could_be_expanded(tmp_path: Path) -> None:
    content = gzip.compress(TEXT, 1)
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(content[: len(content) // 2])
    expanded = zlib.decompressobj(31).decompress(path.read_bytes())
    assert len(list(read_rows_of(path, "x"))) - 1 == expanded.count(b"\n")


def test_a_wrong_checksum_casts_doubt_on_all_rows(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(TEXT))
    content[-8] ^= 1
    rows = read(tmp_path / "x.jsonl.gz", bytes(content))
    assert [row.value for row in rows[:-1]] == ROWS
    assert rows[-1].fault is not None
    assert "any row of this file may be altered" in rows[-1].fault.detail


def test_damage_inside_an_array_is_the_same_fault(tmp_path: Path) -> None:
    content = packed(json.dumps(ROWS).encode(), ".gz")
    rows = read(tmp_path / "x.json.gz", content[: len(content) // 2])
    assert [row.fault.reason for row in rows if row.fault] == ["damaged-archive"]
    assert [row.value for row in rows[:-1]] == ROWS[: len(rows) - 1]
    assert len(rows) > 5000


def test_what_is_no_archive_is_one_fault(tmp_path: Path) -> None:
    for name in ("x.jsonl.gz", "x.json.zst"):
        rows = read(tmp_path / name, TEXT[:500])
        assert [row.fault.reason for row in rows if row.fault] == ["damaged-archive"], name
