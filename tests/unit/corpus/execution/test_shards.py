"""Shards are cut where lines begin, and together they are the file."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.corpus.execution.shards import (
    Shard,
    line_shards,
    opens_array,
    plan_shards,
    read_shard_lines,
)

PIECES = [b"\n", b"\r\n", b"{}", b'{"a": "long enough"}', b"\xef\xbb\xbf", "\u2028".encode(), b" "]


def write(folder: Path, content: bytes, name: str = "in.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def spans(shards: list[Shard]) -> list[tuple[int, int, int]]:
    return [(shard.start, shard.stop, shard.first_row) for shard in shards]


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=30), size=st.integers(1, 80))
def test_shards_together_are_the_file(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], size: int
) -> None:
    content = b"".join(pieces)
    path = write(tmp_path_factory.getbasetemp(), content, "property.jsonl")
    shards = line_shards(path, size)
    whole = [line + b"\n" for line in content.split(b"\n")]
    whole[-1] = whole[-1][:-1]
    whole = [line for line in whole if line]
    found = [
        (shard.first_row + index, line)
        for shard in shards
        for index, line in enumerate(read_shard_lines(shard))
    ]
    if whole:
        whole[0] = whole[0].removeprefix(b"\xef\xbb\xbf")
    assert found == list(enumerate(whole, start=1))
    assert sum(shard.bytes for shard in shards) == len(content)
    assert [shard.number for shard in shards] == list(range(len(shards)))


def test_a_line_belongs_to_the_shard_of_its_first_byte(tmp_path: Path) -> None:
    path = write(tmp_path, b"aaa\nbbb\ncccccccccccc\nd\ne")
    assert spans(line_shards(path, 4)) == [(0, 4, 1), (4, 8, 2), (8, 21, 3), (21, 24, 4)]
    assert spans(line_shards(path, 5)) == [(0, 8, 1), (8, 21, 3), (21, 24, 4)]
    assert spans(line_shards(path, 100)) == [(0, 24, 1)]


def test_cuts_do_not_depend_on_what_came_before(tmp_path: Path) -> None:
    path = write(tmp_path, b"".join(b"%d\n" % n for n in range(1000)))
    starts = {shard.start for shard in line_shards(path, 128)}
    assert {shard.start for shard in line_shards(path, 256)} <= starts


def test_an_empty_file_is_one_empty_shard(tmp_path: Path) -> None:
    (shard,) = line_shards(write(tmp_path, b""), 100)
    assert (shard.start, shard.stop, shard.bytes) == (0, 0, 0)
    assert list(read_shard_lines(shard)) == []


def test_a_mark_in_the_middle_stays(tmp_path: Path) -> None:
    shards = line_shards(write(tmp_path, b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"), 5)
    assert [list(read_shard_lines(shard)) for shard in shards] == [[b"a\n"], [b"\xef\xbb\xbfb\n"]]


def test_a_file_that_shrank_ends_early(tmp_path: Path) -> None:
    (shard,) = line_shards(write(tmp_path, b"a\nb\nc\n"), 100)
    write(tmp_path, b"a\n")
    assert list(read_shard_lines(shard)) == [b"a\n"]


@pytest.mark.parametrize(
    ("content", "array"),
    [
        (b'[{"a": 1},\n{"a": 2}]\n', True),
        (b'\n[{"a": 1}]\n', True),
        (b'\xef\xbb\xbf[\n{"a": 1}]', True),
        (b'["a", 1]\n["b", 2]\n', False),
        (b'{"a": [1]}\n[]\n', False),
        (b"", False),
    ],
)
def test_an_array_in_a_file_of_lines_is_one_shard(
    tmp_path: Path, content: bytes, array: bool
) -> None:
    path = write(tmp_path, content)
    assert opens_array(path) == array
    shards = plan_shards([(path, "s", 0)], 4)
    assert (spans(shards) == [(0, len(content), 1)]) == (array or not content)


def test_parquet_is_cut_between_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": list(range(10))}), path, row_group_size=3)
    assert spans(plan_shards([(path, "s", 0)], 1)) == [(0, 1, 0), (1, 2, 3), (2, 3, 6), (3, 4, 9)]
    sizes = [shard.bytes for shard in plan_shards([(path, "s", 0)], 1)]
    pair = max(sizes[0] + sizes[1], sizes[2] + sizes[3])
    assert spans(plan_shards([(path, "s", 0)], pair)) == [(0, 2, 0), (2, 4, 6)]
    assert spans(plan_shards([(path, "s", 0)], 10**9)) == [(0, 4, 0)]


def test_parquet_without_rows_is_one_shard(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pyarrow.parquet.ParquetWriter(path, pyarrow.schema([("a", pyarrow.int64())])).close()
    assert spans(plan_shards([(path, "s", 0)], 1)) == [(0, 0, 0)]


def test_files_are_numbered_through_and_know_their_entry(tmp_path: Path) -> None:
    lines = write(tmp_path, b"a\nb\n")
    packed = write(tmp_path, b"\x1f\x8b...", "b.jsonl.gz")
    whole = write(tmp_path, b"[{}, {}]", "c.json")
    shards = plan_shards([(lines, "x", 0), (packed, "y", 0), (whole, "z", 1)], 2)
    assert [(s.number, s.source, s.entry, s.bytes) for s in shards] == [
        (0, "x", 0, 2), (1, "x", 0, 2), (2, "y", 0, 5), (3, "z", 1, 8),
    ]  # fmt: skip


def test_a_missing_file_and_a_broken_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no\.jsonl: file not found"):
        plan_shards([(tmp_path / "no.jsonl", "s", 0)], 10)
    with pytest.raises(UserError, match="dvc repro"):
        line_shards(tmp_path / "no.jsonl", 10)
    with pytest.raises(UserError, match=r"bad\.parquet: Parquet cannot be read"):
        plan_shards([(write(tmp_path, b"PAR1 not", "bad.parquet"), "s", 0)], 10)
