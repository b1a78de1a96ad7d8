"""The arrays on the disk: whole documents in storage order, hashes that hold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pipeline.base.artifacts import sha256_file
from pipeline.base.chat import Chat
from pipeline.base.curriculum import Stage
from pipeline.base.errors import UserError
from pipeline.packing.buckets import Layout, lay_out
from pipeline.packing.encoded import Encoded
from pipeline.packing.files import array_faults, write_packed
from pipeline.packing.stored import Stored
from tests.support.packing import encode_traces, sum_trace

TOOL = "```py\n6\n```\n<output>\n6\n</output>\nSo 6."
ROWS = [sum_trace(n, "Carry. " * (n % 7), TOOL if n % 5 == 0 else None) for n in range(1, 31)]
ARRAYS = ("tokens", "trained", "document_lengths", "sequence_documents")


@pytest.fixture(scope="module")
def encoded(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Encoded:
    return encode_traces(base, tmp_path_factory.mktemp("parts"), ROWS, 11, 10, 9)


@pytest.fixture(scope="module")
def layout(encoded: Encoded) -> Layout:
    return lay_out(encoded, [128, 512], [Stage(128, 0.5), Stage(512, 0.5)])


def test_unpacked_documents_and_masks_are_those_that_went_in(
    encoded: Encoded, layout: Layout, chat: Chat, tmp_path: Path
) -> None:
    write_packed(tmp_path, encoded, layout)
    tokens, trained, lengths, counts = (np.load(tmp_path / f"{name}.npy") for name in ARRAYS)
    assert [str(a.dtype) for a in (tokens, trained, lengths, counts)] == [
        "int32", "bool", "int32", "int32",
    ]  # fmt: skip
    assert np.array_equal(counts, layout.counts)
    starts = np.cumsum(lengths) - lengths
    for number, start, length in zip(layout.documents.tolist(), starts, lengths):
        row = ROWS[number]
        one = chat.encode(row.problem, row.thinking, row.solution)
        assert tokens[start : start + length].tolist() == one.prompt + one.reply
        mask = trained[start : start + length]
        assert not mask[: len(one.prompt)].any()
        missing = int((~mask[len(one.prompt) :]).sum())
        assert (missing > 0) == (row.solution == TOOL)
        assert mask.sum() == encoded.trained[number]


def test_first_token_of_every_document_carries_no_loss(  # C06
    encoded: Encoded, layout: Layout, tmp_path: Path
) -> None:
    write_packed(tmp_path, encoded, layout)
    lengths, trained = np.load(tmp_path / "document_lengths.npy"), np.load(tmp_path / "trained.npy")
    starts = np.cumsum(lengths) - lengths
    assert not trained[starts].any()
    assert trained[starts + lengths - 1].all()


@pytest.mark.parametrize("block", [1, 100, 1000])
def test_blocks_change_no_byte(
    encoded: Encoded, layout: Layout, tmp_path: Path, block: int
) -> None:
    whole = write_packed(tmp_path / "a", encoded, layout)
    assert write_packed(tmp_path / "b", encoded, layout, block) == whole
    for name in (*(f"{name}.npy" for name in ARRAYS), "documents.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert not list((tmp_path / "a").glob(".*"))


def test_files_are_those_that_numpy_would_write(
    encoded: Encoded, layout: Layout, tmp_path: Path
) -> None:
    arrays = write_packed(tmp_path, encoded, layout)
    for name in ARRAYS:
        path = tmp_path / f"{name}.npy"
        assert arrays[name]["sha256"] == sha256_file(path)
        array = np.load(path)
        np.save(tmp_path / "again.npy", array)
        assert (tmp_path / "again.npy").read_bytes() == path.read_bytes()
        assert arrays[name] | {"sha256": ""} == {
            "dtype": str(array.dtype), "shape": list(array.shape), "sha256": "",
        }  # fmt: skip


def test_documents_file_says_where_each_row_went(
    encoded: Encoded, layout: Layout, tmp_path: Path
) -> None:
    write_packed(tmp_path, encoded, layout)
    rows = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text().splitlines()]
    homes = np.repeat(np.arange(len(layout.counts)), layout.counts).tolist()
    for row, number, home in zip(rows, layout.documents.tolist(), homes, strict=True):
        trace = ROWS[number]
        assert row == {
            "id": trace.id,
            "source": "sums",
            "origin": trace.origin,
            "tier": trace.tier,
            "variant": "main",
            "line": number + 1,
            "length": encoded.lengths[number],
            "trained": encoded.trained[number],
            "sequence": home,
        }


def test_full_disk_is_refused_before_anything_is_written(
    encoded: Encoded, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=10_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match="the packed corpus needs"):
        write_packed(tmp_path, encoded, layout)
    assert list(tmp_path.iterdir()) == []


def test_changed_bytes_are_noticed(encoded: Encoded, layout: Layout, tmp_path: Path) -> None:
    arrays = write_packed(tmp_path, encoded, layout)
    assert array_faults(tmp_path, arrays) == []
    trained = np.load(tmp_path / "trained.npy")
    trained[0] = not trained[0]
    np.save(tmp_path / "trained.npy", trained)
    (fault,) = array_faults(tmp_path, arrays)
    assert "trained.npy" in fault


def test_stored_documents_are_found_by_number(
    encoded: Encoded, layout: Layout, tmp_path: Path
) -> None:
    write_packed(tmp_path, encoded, layout)
    stored = Stored(tmp_path)
    sizes = [len(stored.document(number)[0]) for number in range(len(ROWS))]
    assert sizes == encoded.lengths[layout.documents].tolist()
    assert stored.sizes().sum() == sum(sizes)
    assert len(stored.sizes()) == len(layout.counts)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_do_not_fit_together_are_refused(
    encoded: Encoded, layout: Layout, tmp_path: Path, name: str
) -> None:
    write_packed(tmp_path, encoded, layout)
    path = tmp_path / f"{name}.npy"
    np.save(path, np.load(path)[:-1])
    with pytest.raises(UserError, match="dvc repro -f tokenize"):
        Stored(tmp_path)
    path.write_bytes(b"no array")
    with pytest.raises(UserError, match=f"{name}.npy: cannot be read"):
        Stored(tmp_path)
