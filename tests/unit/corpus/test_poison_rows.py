"""A row that hangs, kills its worker or eats memory costs itself alone, in every kind of file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

from pipeline.base.params_corpus import SourceParams
from pipeline.base.records import Dropped, Trace, read_rows
from pipeline.corpus.execution import guard
from pipeline.corpus.execution.executor import run_shards
from pipeline.corpus.funnel import SourceTally, read_tally
from pipeline.corpus.judge import JudgeJob
from pipeline.corpus.readers.cuts import plan_shards
from pipeline.corpus.readers.places import data_files
from pipeline.corpus.readers.sources import source_names
from tests.support.filtering import row
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_tokenizer
from tests.unit.corpus.execution.support import quiet, settings
from tests.unit.corpus.traps import judge_with_traps

PARAMS = make_params()
ROWS = 90
TRAPS = {"power": "timeout", "sigkill": "crash", "memory": "memory"}
FIRST_OF = {".jsonl": 1, ".json": 0, ".parquet": 0, "": 0}
"""Number that the first row of a file has, by the file's ending."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    write_tiny_tokenizer(folder)
    return folder


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "WAITING_FACTOR", 10**6)  # a hang is known by what it computes


def write(folder: Path, ending: str, traps: dict[int, str]) -> Path:
    """Rows of which some are traps, as a file of a kind or as a folder that `datasets` saves."""
    rows = [row(f"What is {n} + {n}?", 2 * n, answer=str(2 * n)) for n in range(ROWS)]
    for place, trap in traps.items():
        rows[place]["problem"] = f"trap {trap}"
    path = folder / f"data{ending}"
    if ending == ".jsonl":
        path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    elif ending == ".json":
        path.write_text(json.dumps(rows, indent=1))
    elif ending == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=40)
    else:
        path.mkdir()
        table = pyarrow.Table.from_pylist(rows)
        with pyarrow.ipc.new_stream(str(path / "data-00000.arrow"), table.schema) as writer:
            writer.write_table(table)
        state = {"_data_files": [{"filename": "data-00000.arrow"}]}
        (path / "state.json").write_text(json.dumps(state))
        (path / "dataset_info.json").write_text("{}")
    return path


def judged(base: Path, scratch: Path, place: Path, workers: int) -> list[Path]:
    """The judged folders of a source's shards."""
    files = data_files(place)
    listed = list(zip(files, source_names(files), range(len(files)), strict=True))
    shards = plan_shards(listed, 4000)
    job = JudgeJob(
        str(base), PARAMS.prompt, PARAMS.filter, (SourceParams(path="-"),), (0,) * len(files)
    )
    how = settings(workers=workers)
    return run_shards("judge", judge_with_traps, job, shards, scratch, how, quiet())


def content(folders: list[Path]) -> dict[str, bytes]:
    files = [path for folder in folders for path in folder.iterdir()]
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in files}


def outcome(folders: list[Path]) -> tuple[list[str], dict[str, str], SourceTally]:
    """(origins of the survivors, origin → reason of the dropped rows, the counts)."""
    kept, lost, tally = [], {}, SourceTally("all")
    for folder in folders:
        kept += [one.origin for one in read_rows(Trace, folder / "survivors.jsonl")]
        lost |= {one.origin: one.reason for one in read_rows(Dropped, folder / "dropped.jsonl")}
        tally.add(read_tally(folder / "tally.json"))
    return kept, lost, tally


def origin(place: Path, number: int) -> str:
    name = place.name if place.is_file() else "data-00000.arrow"
    sign = ":" if place.suffix == ".jsonl" else "#"
    return f"{name}{sign}{FIRST_OF[place.suffix] + number}"


@pytest.mark.parametrize("ending", FIRST_OF)
def test_each_costs_one_row_wherever_it_strikes(base: Path, tmp_path: Path, ending: str) -> None:
    traps = {17 + 20 * n: f"read {act}" for n, act in enumerate(TRAPS)}
    traps |= {18 + 20 * n: f"judge {act}" for n, act in enumerate(TRAPS)}
    place = write(tmp_path, ending, traps)
    one = judged(base, tmp_path / "one", place, workers=1)
    kept, lost, tally = outcome(one)
    assert lost == {origin(place, n): TRAPS[trap.split()[1]] for n, trap in traps.items()}
    assert kept == [origin(place, n) for n in range(ROWS) if n not in traps]
    assert (tally.rows, tally.read) == (ROWS, ROWS)
    assert tally.dropped == Counter({"timeout": 2, "crash": 2, "memory": 2})
    assert content(judged(base, tmp_path / "two", place, workers=2)) == content(one)


@pytest.mark.parametrize(("act", "reason"), TRAPS.items())
def test_a_row_that_parquet_cannot_hand_out_costs_what_follows_in_its_row_group(
    base: Path, tmp_path: Path, act: str, reason: str
) -> None:
    place = write(tmp_path, ".parquet", {50: f"fetch {act}"})
    kept, lost, tally = outcome(judged(base, tmp_path / "one", place, workers=1))
    assert lost == {origin(place, n): reason for n in range(50, 80)}, "a row group has 40 rows"
    assert len(kept) + len(lost) == tally.read == ROWS


def named(count: int, trap: str, at: int) -> dict[str, Any]:
    rows = {f"k{n}": row(f"What is {n} + 1?", n + 1, answer=str(n + 1)) for n in range(count)}
    rows[f"k{at}"]["problem"] = f"trap {trap}"
    return rows


@pytest.mark.parametrize("trap", ["read sigkill", "judge sigkill"])
def test_rows_by_name_are_told_apart_too(base: Path, tmp_path: Path, trap: str) -> None:
    place = tmp_path / "data.json"
    place.write_text(json.dumps(named(9, trap, 4)))
    kept, lost, _ = outcome(judged(base, tmp_path / "one", place, workers=1))
    assert lost == {"data.json#k4": "crash"}
    assert kept == [f"data.json#k{n}" for n in range(9) if n != 4]


def test_what_lies_beside_the_rows_costs_none_of_them(base: Path, tmp_path: Path) -> None:
    good = list(named(5, "nowhere", 0).values())[1:]
    place = tmp_path / "data.json"
    place.write_text(json.dumps({"about": {"problem": "trap read sigkill"}, "rows": good}))
    kept, lost, _ = outcome(judged(base, tmp_path / "one", place, workers=1))
    assert (kept, lost) == ([f"data.json#{n}" for n in range(4)], {})


def test_one_row_over_many_lines_is_that_row(base: Path, tmp_path: Path) -> None:
    inner = {"problem": "trap read sigkill"}
    place = tmp_path / "data.json"
    place.write_text(json.dumps({"meta": inner, "problem": "1 + 1?", "answer": "2"}, indent=1))
    kept, lost, _ = outcome(judged(base, tmp_path / "one", place, workers=1))
    assert (kept, lost) == ([], {"data.json#0": "crash"})
