"""Shards are cut where lines begin, and together they are the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.corpus.execution.shards import (
    Shard,
    line_shards,
    read_shard_batches,
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


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="dvc repro"):
        line_shards(tmp_path / "no.jsonl", 10)


@pytest.mark.parametrize("count", [1, 3, 100])
def test_batches_are_the_lines_of_the_shard_and_no_others(tmp_path: Path, count: int) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(b"%d\n" % 7**number for number in range(50)) + b"no end")
    for shard in line_shards(path, 100):
        batches = list(read_shard_batches(shard, count))
        assert all(0 < len(batch) <= count for batch in batches)
        assert [line for batch in batches for line in batch] == list(read_shard_lines(shard))
