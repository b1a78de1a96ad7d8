"""Parts of the traces: the same bytes however they are cut, and rows that end processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.base.artifacts import read_json, read_jsonl
from pipeline.base.errors import UserError
from pipeline.base.records import write_rows
from pipeline.packing import shards
from pipeline.packing.shards import ALONE, RECORD, TOGETHER, encode_part, read_batches
from tests.support.packing import Attended, encode_traces, make_job, parts_of, sum_trace

TOOL = "```py\n6\n```\n<output>\n6\n</output>\nSo 6."


def test_a_part_holds_its_documents_and_where_each_row_begins(base: Path, tmp_path: Path) -> None:
    rows = [sum_trace(n, solution=TOOL if n == 2 else None) for n in range(1, 5)]
    encode_traces(base, tmp_path, rows)
    folder = tmp_path / "parts0/0"
    records = np.load(folder / "documents.npy")
    tokens = np.fromfile(folder / "tokens.bin", dtype="<i4")
    assert records.dtype == RECORD
    assert len(records) == 4
    assert records["length"].sum() == len(tokens)
    lines = (tmp_path / "traces.jsonl").read_bytes()
    for record, row in zip(records, rows, strict=True):
        assert lines[record["row_start"] :].startswith(b'{"id":"' + row.id.encode())
    notes = (folder / "documents.jsonl").read_bytes()
    assert notes[: records["line_stop"][0]].startswith(b'{"id": "')
    assert records["line_stop"][-1] == len(notes)
    (run,) = np.load(folder / "untrained.npy").tolist()
    assert run[0] == 1
    trained = records["length"] - records["prompt"]
    assert (trained - records["trained"]).tolist() == [0, run[2] - run[1], 0, 0]


@pytest.mark.parametrize("sizes", [(20,), (1, 19), (7, 6, 7), (1,) * 20])
def test_parts_add_up_to_the_whole(base: Path, tmp_path: Path, sizes: tuple[int, ...]) -> None:
    rows = [sum_trace(n, solution=TOOL if n % 3 else None) for n in range(1, 21)]
    whole = encode_traces(base, tmp_path / "a", rows, sequence_tokens=90)
    cut = encode_traces(base, tmp_path / "b", rows, *sizes, sequence_tokens=90)
    for name in ("lengths", "prompts", "trained", "kinds", "rows"):
        assert np.array_equal(getattr(whole, name), getattr(cut, name)), name
    assert np.array_equal(whole.untrained(), cut.untrained())
    for name in ("names", "dropped", "dropped_tokens", "variants", "tool_output"):
        assert getattr(whole, name) == getattr(cut, name), name
    everything = np.arange(len(whole), dtype=np.int32)
    assert whole.lines(everything) == cut.lines(everything)


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()


def test_batches_end_at_rows_or_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path / "t.jsonl", [sum_trace(n) for n in range(1, 12)])
    (part,) = parts_of(tmp_path / "t.jsonl", [11])
    monkeypatch.setattr(shards, "BATCH_ROWS", 4)
    sizes = [len(batch) for batch in read_batches(make_job(tmp_path), part)]
    assert sizes == [4, 4, 3]
    monkeypatch.setattr(shards, "BATCH_CHARACTERS", 10)
    assert [len(batch) for batch in read_batches(make_job(tmp_path), part)] == [1] * 11


def test_batch_that_ended_a_process_is_taken_apart(base: Path, tmp_path: Path) -> None:
    write_rows(tmp_path / "t.jsonl", [sum_trace(n) for n in range(1, 5)])
    (part,) = parts_of(tmp_path / "t.jsonl", [4])
    watch = Attended({TOGETHER: "crash", ALONE + 2: "timeout"})
    encode_part(make_job(base), part, tmp_path / "a", watch)
    assert watch.asked == [TOGETHER, *(ALONE + n for n in range(4))]
    assert watch.rows == 4
    (gone,) = read_jsonl(tmp_path / "a/dropped.jsonl")
    assert (gone["origin"], gone["reason"]) == ("sums.jsonl:3", "timeout")
    assert "executor.row_seconds" in gone["detail"]
    encode_part(make_job(base), part, tmp_path / "b", Attended())
    kept = read_json(tmp_path / "a/tally.json")["variants"]["main"]
    assert kept == read_json(tmp_path / "b/tally.json")["variants"]["main"] - 1 == 3


def test_dropped_rows_say_why_and_where(base: Path, tmp_path: Path) -> None:
    rows = [
        sum_trace(1),
        sum_trace(2, solution="on and on " * 400),
        sum_trace(3, solution="<|im_end|>"),
    ]
    encoded = encode_traces(base, tmp_path, rows)
    gone = list(read_jsonl(tmp_path / "parts0/0/dropped.jsonl"))
    assert [(row["origin"], row["reason"]) for row in gone] == [
        ("sums.jsonl:2", "too-long"), ("sums.jsonl:3", "end-token-inside"),
    ]  # fmt: skip
    assert "a sequence holds 512" in gone[0]["detail"]
    assert encoded.dropped == {"end-token-inside": 1, "too-long": 1}


def test_row_of_another_version_is_named(base: Path, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"id": "x"}\n')
    (part,) = parts_of(tmp_path / "t.jsonl", [1])
    with pytest.raises(UserError, match=r"t\.jsonl:1: missing field"):
        encode_part(make_job(base), part, tmp_path / "a", Attended())
