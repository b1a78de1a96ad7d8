"""Kept rows are copied byte by byte, dropped ones are named, in the order of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.base.errors import UserError
from pipeline.base.records import to_line
from pipeline.corpus.overlap.division import divide
from pipeline.corpus.overlap.findings import Decision
from pipeline.corpus.overlap.search import IDS, SIZES
from tests.support.traces import make_trace

PROBLEMS = ["Why?", "How?", "Who?", "Why?", "When?", "Where?"]
TRACES = [make_trace(one, source="s", origin=f"s:{n}") for n, one in enumerate(PROBLEMS)]
LINES = [to_line(trace) for trace in TRACES]


def shards(rows: Path, parts: list[int]) -> list[Path]:
    """The rows as a file, searched in shards of so many rows."""
    rows.write_bytes(b"".join(LINES))
    folders, first = [], 0
    for number, count in enumerate(parts):
        folder = rows.parent / str(number)
        folder.mkdir()
        ids = [int(trace.id, 16) for trace in TRACES[first : first + count]]
        np.save(folder / IDS, np.array(ids, np.uint64))
        sizes = [len(line) for line in LINES[first : first + count]]
        np.save(folder / SIZES, np.array(sizes, np.int64))
        folders.append(folder)
        first += count
    return folders


@pytest.mark.parametrize("gone", [set(), {0}, {2}, {5}, {4, 5}, {1, 2, 4}, set(range(6))], ids=repr)
def test_rows_are_divided_by_their_problem(tmp_path: Path, gone: set[int]) -> None:
    rows, kept = tmp_path / "rows.jsonl", tmp_path / "out/kept.jsonl"
    folders = shards(rows, [2, 0, 4])
    decisions = {int(TRACES[n].id, 16): Decision("overlap-copy", "x", ("a",)) for n in gone}
    away = [n for n, trace in enumerate(TRACES) if int(trace.id, 16) in decisions]
    found = divide(rows, folders, decisions, kept)
    assert kept.read_bytes() == b"".join(line for n, line in enumerate(LINES) if n not in away)
    assert [row.origin for row in found.dropped] == [f"s:{n}" for n in away]
    assert (found.kept, found.hits["a"]) == (6 - len(away), len(away))


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    folders = shards(tmp_path / "rows.jsonl", [6])
    (tmp_path / "rows.jsonl").write_bytes(b"".join(LINES[1:]))
    with pytest.raises(UserError, match="changed while it was searched"):
        divide(tmp_path / "rows.jsonl", folders, {}, tmp_path / "kept.jsonl")
    assert not (tmp_path / "kept.jsonl").exists()
