"""A restart finds its own shards, and nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.base.artifacts import MARKER, mark_complete
from pipeline.corpus.execution import scratch
from pipeline.corpus.execution.scratch import (
    digest,
    draft,
    forget_scratch,
    is_finished,
    merge_files,
    publish,
    scratch_folder,
)


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project of three files of code, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scratch, "PIPELINE", tmp_path / "pipeline")
    for name in ("base/a.py", "corpus/rules/b.py", "filter.py", "train.py"):
        path = tmp_path / "pipeline" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")


def test_equal_inputs_find_the_same_folder() -> None:
    folder = scratch_folder("filter", {"a": 1, "b": 2})
    (folder / "judge").mkdir()
    assert scratch_folder("filter", {"b": 2, "a": 1}) == folder
    assert (folder / "judge").is_dir()
    assert folder.parent == Path("runs/corpus")


@pytest.mark.parametrize("name", ["base/a.py", "corpus/rules/b.py", "filter.py"])
def test_other_code_is_other_work(name: str) -> None:
    folder = scratch_folder("filter", {})
    (scratch.PIPELINE / name).write_text("2")
    assert scratch_folder("filter", {}) != folder
    assert not folder.exists()


def test_code_of_other_stages_does_not_count() -> None:
    folder = scratch_folder("filter", {})
    (scratch.PIPELINE / "train.py").write_text("2")
    assert scratch_folder("filter", {}) == folder


def test_only_older_work_of_the_same_stage_goes() -> None:
    other, own = scratch_folder("select", {}), scratch_folder("filter", {"seed": 1})
    longer = scratch_folder("filter-b", {})
    new = scratch_folder("filter", {"seed": 2})
    assert [folder.is_dir() for folder in (other, longer, own, new)] == [True, True, False, True]
    forget_scratch(new)
    assert not new.exists()


def test_a_shard_is_finished_when_whole_and_its_own(tmp_path: Path) -> None:
    target = tmp_path / "00000"
    assert not is_finished(target, "shard")
    with draft(target) as folder:
        (folder / "out").write_text("x")
        publish(folder, target, {"shard": digest("shard")})
    assert is_finished(target, "shard")
    assert not is_finished(target, "another")
    assert [path.name for path in tmp_path.iterdir() if "0000" in path.name] == ["00000"]
    (target / MARKER).unlink()
    assert not is_finished(target, "shard")


def test_a_failed_draft_leaves_nothing(tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyError), draft(tmp_path / "00000"):
        raise KeyError
    assert sorted(tmp_path.iterdir()) == before


def test_the_first_of_two_equal_shards_stays(tmp_path: Path) -> None:
    target = tmp_path / "00000"
    for text in ("first", "second"):
        with draft(target) as folder:
            (folder / "out").write_text(text)
            publish(folder, target, {})
    assert (target / "out").read_text() == "first"


def test_a_torn_folder_in_the_way_is_said(tmp_path: Path) -> None:
    target = tmp_path / "00000"
    target.mkdir()
    (target / "out").touch()
    with pytest.raises(OSError, match="00000"), draft(target) as folder:
        publish(folder, target, {})


def test_files_are_joined_in_order(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("b", "a", "c")]
    for folder, content in zip(folders, [b"1\r\n", b"", b"\xff2\n"], strict=True):
        folder.mkdir()
        (folder / "kept.jsonl").write_bytes(content)
        mark_complete(folder, {})
    assert merge_files(folders, "kept.jsonl", tmp_path / "whole.jsonl") == 6
    assert (tmp_path / "whole.jsonl").read_bytes() == b"1\r\n\xff2\n"
    with pytest.raises(FileNotFoundError):
        merge_files(folders, "other.jsonl", tmp_path / "other.jsonl")
    assert not (tmp_path / "other.jsonl").exists()
