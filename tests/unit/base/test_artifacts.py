"""Writes are whole or absent, whatever interrupts them."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.base import artifacts
from pipeline.base.artifacts import (
    canonical_hash,
    is_complete,
    mark_complete,
    read_json,
    read_jsonl,
    remove_tree,
    replacing,
    require_free_space,
    sha256_file,
    sha256_text,
    write_json,
    write_jsonl,
    write_text,
)
from pipeline.base.errors import UserError
from tests.support.closure import ROOT


def test_json_and_jsonl_come_back(tmp_path: Path) -> None:
    value = {"b": [1, 2.5, None], "a": "π\n"}
    write_json(tmp_path / "deep/folder/x.json", value)
    assert read_json(tmp_path / "deep/folder/x.json") == value
    assert write_jsonl(tmp_path / "x.jsonl", [value, value]) == 2
    assert list(read_jsonl(tmp_path / "x.jsonl")) == [value, value]
    assert (tmp_path / "x.jsonl").read_bytes().count(b"\n") == 2


def test_a_failing_writer_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    write_text(path, "old")

    def rows() -> Iterator[str]:
        yield "half of the n"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_jsonl(path, rows())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_kill_during_the_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    write_text(path, "old")
    program = (
        "import sys, time\nfrom pathlib import Path\n"
        "from pipeline.base.artifacts import writing_text\n"
        "with writing_text(Path(sys.argv[1])) as stream:\n"
        "    stream.write('new' * 100_000)\n    stream.flush()\n"
        "    print('half', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "half\n"
        child.send_signal(signal.SIGKILL)
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.txt"
    write_text(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(artifacts.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_data_is_on_the_disk_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(artifacts.os, "fsync", lambda fd: (events.append("sync"), sync(fd))[1])

    def renaming(source: Path, target: Path) -> Path:
        events.append("rename")
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", renaming)
    write_text(tmp_path / "x", "y")
    assert events == ["sync", "rename", "sync"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_json_that_strict_readers_refuse_is_not_written(tmp_path: Path, value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", value)
    with pytest.raises(ValueError, match="JSON"):
        write_jsonl(tmp_path / "x.jsonl", [value])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"{", b"\xff{}", b""])
def test_broken_json_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.json: not valid JSON"):
        read_json(tmp_path / "x.json")


def test_a_broken_line_is_named_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(UserError, match=r"x\.jsonl:2: not valid JSON"):
        list(read_jsonl(tmp_path / "x.jsonl"))


@pytest.mark.parametrize("reader", [read_json, lambda path: list(read_jsonl(path))])
def test_a_missing_file_says_what_makes_it(tmp_path: Path, reader: object) -> None:
    with pytest.raises(UserError, match="dvc repro"):
        reader(tmp_path / "none")  # type: ignore[operator]


def test_line_ends_inside_a_string_do_not_split_it(tmp_path: Path) -> None:
    rows = [{"text": "a\u2028b\x85c\r\nd\x0be"}]
    write_jsonl(tmp_path / "x.jsonl", rows)
    assert list(read_jsonl(tmp_path / "x.jsonl")) == rows


def test_hashes(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_file(tmp_path / "x") == sha256_text("abc") == known


def test_canonical_hash_is_of_the_value_not_of_its_writing() -> None:
    assert canonical_hash({"a": 1, "b": [1, 2]}) == canonical_hash({"b": [1, 2], "a": 1})
    different = [{"a": 1}, {"a": "1"}, {"a": 1.5}, {"a": [1]}, {"b": 1}, ["a", 1]]
    assert len({canonical_hash(value) for value in different}) == len(different)


def test_a_folder_counts_only_with_its_marker(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner/weights").write_text("w")
    assert not is_complete(folder)
    mark_complete(folder, {"step": 3})
    assert is_complete(folder)
    assert json.loads((folder / artifacts.MARKER).read_text()) == {"step": 3}
    remove_tree(folder)
    assert not folder.exists()
    remove_tree(folder)  # gone already: nothing to do


def test_replacing_cleans_up_when_nothing_was_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        with replacing(tmp_path / "x"):
            pass
    assert list(tmp_path.iterdir()) == []


def test_free_space_is_asked_before_writing(tmp_path: Path) -> None:
    require_free_space(tmp_path / "not/yet/there", 1, "a checkpoint")
    with pytest.raises(UserError, match=r"a checkpoint needs 1073741824\.00 GiB"):
        require_free_space(tmp_path / "not/yet/there", 2**60, "a checkpoint")
