"""Input files are cut by their kind, and a file of lines that is an array is not cut."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from pipeline.base.errors import UserError
from pipeline.corpus.execution.shards import Shard
from pipeline.corpus.readers.cuts import opens_array, plan_shards


def write(folder: Path, content: bytes, name: str = "in.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def spans(shards: list[Shard]) -> list[tuple[int, int, int]]:
    return [(shard.start, shard.stop, shard.first_row) for shard in shards]


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


@pytest.mark.parametrize(("head", "array"), [(b'[{"a": "', True), (b'["', False)])
def test_a_first_line_of_any_length_is_not_held(tmp_path: Path, head: bytes, array: bool) -> None:
    tail = b'"}]' if array else b'"]'
    path = write(tmp_path, head + b"x" * (24 * 2**20) + tail + b'\n{"b": 1}\n')
    tracemalloc.start()
    assert opens_array(path) == array
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20


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
    with pytest.raises(UserError, match=r"bad\.parquet: Parquet cannot be read"):
        plan_shards([(write(tmp_path, b"PAR1 not", "bad.parquet"), "s", 0)], 10)
