"""Every form of a path gives its files, and says what is wrong where it gives none."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest

from pipeline.base.errors import UserError
from pipeline.corpus.readers.kinds import ending_of
from pipeline.corpus.readers.places import data_files
from pipeline.corpus.readers.sources import read_rows_of


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")


def names(folder: Path, place: Path | None = None) -> list[str]:
    return [str(file.relative_to(folder)) for file in data_files(place or folder)]


def save_split(folder: Path, problems: list[str]) -> None:
    """As `Dataset.save_to_disk` does it, in one file a problem."""
    folder.mkdir(parents=True)
    files = [f"data-{n:05}-of-{len(problems):05}.arrow" for n in range(len(problems))]
    for file, problem in zip(files, problems):
        table = pa.table({"problem": [problem]})
        with pyarrow.ipc.new_stream(str(folder / file), table.schema) as writer:
            writer.write_table(table)
    (folder / "dataset_info.json").write_text("{}")
    state = {"_data_files": [{"filename": file} for file in files], "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))


def test_folders_give_every_known_kind_in_order(tmp_path: Path) -> None:
    known = ["a/x.jsonl.gz", "b.JSON", "b.json.zst", "c.ndjson", "d.parquet", "e.arrow"]
    put(tmp_path, *known, ".hidden/x.jsonl", "readme.md", "f.txt", ".x.jsonl", "state.json")
    assert names(tmp_path) == known


def test_a_named_text_file_holds_lines(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text('{"a": 1}\n{"a": 2}\n')
    assert data_files(tmp_path / "f.txt") == [tmp_path / "f.txt"]
    assert [row.value for row in read_rows_of(tmp_path / "f.txt", "f")] == [{"a": 1}, {"a": 2}]


def test_globs_name_files_and_folders_once(tmp_path: Path) -> None:
    put(tmp_path, "a1/x.jsonl", "a1/note.md", "a2/y.jsonl", "b/z.jsonl", "a1/x.txt")
    assert names(tmp_path, tmp_path / "a*") == ["a1/x.jsonl", "a2/y.jsonl"]
    assert names(tmp_path, tmp_path / "**" / "*.jsonl") == ["a1/x.jsonl", "a2/y.jsonl", "b/z.jsonl"]
    put(tmp_path, "odd[1].jsonl")
    assert names(tmp_path, tmp_path / "odd[1].jsonl") == ["odd[1].jsonl"]


def test_links_are_followed_once(tmp_path: Path) -> None:
    put(tmp_path, "real/x.jsonl")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/link").symlink_to(tmp_path / "real")
    (tmp_path / "real/loop").symlink_to(tmp_path / "real")
    assert names(tmp_path, tmp_path / "data") == ["data/link/x.jsonl"]


def test_a_saved_data_set_is_read_in_its_own_order(tmp_path: Path) -> None:
    save_split(tmp_path / "set", ["first", "second"])
    files = data_files(tmp_path / "set")
    rows = [row.value for file in files for row in read_rows_of(file, "x")]
    assert rows == [{"problem": "first"}, {"problem": "second"}]
    files[0].unlink()
    with pytest.raises(UserError, match="Copy the whole folder"):
        data_files(tmp_path / "set")


def test_of_several_splits_train_is_taken_or_one_must_be_named(tmp_path: Path) -> None:
    for split in ("train", "test"):
        save_split(tmp_path / f"set/{split}", [split])
    said = tmp_path / "set/dataset_dict.json"
    said.write_text('{"splits": ["test", "train"]}')
    assert names(tmp_path) == ["set/train/data-00000-of-00001.arrow"]
    assert names(tmp_path, tmp_path / "set/test") == ["set/test/data-00000-of-00001.arrow"]
    said.write_text('{"splits": ["test", "validation"]}')
    with pytest.raises(UserError, match="test, validation and no `train`"):
        data_files(tmp_path / "set")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("gone.jsonl", "no such file"),
        ("x*.jsonl", "no data file matches"),
        ("empty", "no data file in this folder"),
        ("notes.md", "unknown kind of file"),
        ("**x", "pattern"),
        ("hub:name", "OWNER/NAME@COMMIT"),
        ("hub:owner/name@main", "no commit"),
    ],
)
def test_faults_name_place_and_key(tmp_path: Path, place: str, said: str) -> None:
    put(tmp_path, "notes.md", "empty/readme.md")
    path = place if place.startswith("hub:") else tmp_path / place
    with pytest.raises(UserError, match=said) as caught:
        data_files(path, "data.panel")
    assert place in str(caught.value)


def test_endings_are_told_in_any_case() -> None:
    assert ending_of(Path("a/B.JSONL.GZ")) == ".jsonl.gz"
    assert ending_of(Path("x.csv")) == ""
