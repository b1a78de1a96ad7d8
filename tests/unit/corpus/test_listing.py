"""Data enter as path, size and hash, or are refused by the key that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.base.artifacts import sha256_text
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache
from pipeline.base.params_corpus import SourceParams
from pipeline.corpus.listing import describe_file, describe_files, describe_sources


@pytest.fixture
def cache(tmp_path: Path) -> HashCache:
    return HashCache(tmp_path / "runs" / "hashes.json")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "b.jsonl").write_text("{}\n")
    (folder / "a.json").write_text("[]")
    (folder / "README.md").write_text("about")
    return folder


def test_a_folder_becomes_its_data_files_in_order(data: Path, cache: HashCache) -> None:
    found = describe_files("data.sources", [data], cache)
    assert found == [
        {"path": str(data / "a.json"), "bytes": 2, "sha256": sha256_text("[]")},
        {"path": str(data / "b.jsonl"), "bytes": 3, "sha256": sha256_text("{}\n")},
    ]


def test_relative_paths_stay_relative(
    data: Path, cache: HashCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    assert describe_file("data.panel", "data/b.jsonl", cache)["path"] == "data/b.jsonl"


def test_a_changed_file_gets_another_hash(data: Path, cache: HashCache) -> None:
    before = describe_file("data.panel", data / "a.json", cache)
    (data / "a.json").write_text("{}")
    assert describe_file("data.panel", data / "a.json", cache)["sha256"] != before["sha256"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("absent.jsonl", None, r"absent\.jsonl: no such file or folder"),
        ("empty.jsonl", "", r"empty\.jsonl: the file is empty"),
        ("rows.csv", "a,b", r"rows\.csv: unknown kind of file, read are \.jsonl"),
    ],
)
def test_what_cannot_be_read_names_file_and_key(
    data: Path, cache: HashCache, name: str, content: str | None, said: str
) -> None:
    if content is not None:
        (data / name).write_text(content)
    with pytest.raises(UserError, match=said + r".*`decontaminate\.protected`"):
        describe_files("decontaminate.protected", [data / name], cache)


def test_a_panel_is_one_file(data: Path, cache: HashCache) -> None:
    with pytest.raises(
        UserError, match=r"2 files where one is expected\. Name one of them in `data"
    ):
        describe_file("data.panel", data, cache)


def test_files_of_sources_carry_the_index_of_their_source(data: Path, cache: HashCache) -> None:
    sources = [SourceParams(path=str(data / "*.jsonl")), SourceParams(path=str(data / "a.json"))]
    found = describe_sources(sources, cache)
    assert [(one["source"], Path(one["path"]).name) for one in found] == [
        *((0, "b.jsonl"), (1, "a.json"))
    ]
    assert found[0]["sha256"] == sha256_text("{}\n")


def test_a_file_of_two_sources_is_refused(data: Path, cache: HashCache) -> None:
    (data / "link.jsonl").symlink_to(data / "b.jsonl")
    for second in (data, data / "link.jsonl"):
        sources = [SourceParams(path=str(data / "b.jsonl")), SourceParams(path=str(second))]
        with pytest.raises(UserError, match=r"named by .*b\.jsonl and by"):
            describe_sources(sources, cache)
