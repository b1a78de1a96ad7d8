"""One bad row costs one row: hangs, memory, crashes; faults keep their words."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from pipeline.base.errors import UserError
from pipeline.corpus.execution import guard
from pipeline.corpus.execution.executor import run_shards
from pipeline.corpus.execution.guard import WorkerError
from tests.unit.corpus.execution import tasks
from tests.unit.corpus.execution.support import expected_without, merged, quiet, run, settings


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        ("power", "timeout"),
        ("regex", "timeout"),
        ("memory", "memory"),
        ("exit", "crash"),
        ("segfault", "crash"),
        ("sigkill", "crash"),
    ],
)
def test_a_bad_row_costs_exactly_this_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, reason: str
) -> None:
    monkeypatch.setattr(guard, "WAITING_FACTOR", 10**6)  # a hang is known by what it computes
    folders = run(tmp_path, {23: act})
    assert merged(folders, "lost.txt") == f"23 {reason}\n"
    assert merged(folders) == expected_without(23)


def test_a_row_that_waits_is_ended_too(tmp_path: Path) -> None:
    folders = run(tmp_path, {23: "sleep"}, row_seconds=0.1)
    assert merged(folders, "lost.txt") == "23 timeout\n"


def test_a_row_that_waits_a_little_is_kept(tmp_path: Path) -> None:
    folders = run(tmp_path, {23: "pause"}, row_seconds=0.2)
    assert merged(folders) == expected_without()


def test_time_is_counted_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "WAITING_FACTOR", 2)
    acts = dict.fromkeys(range(20, 36), "toil")  # 1 s together, half of it computing
    folders = run(tmp_path, acts, shard_bytes=10**6, row_seconds=0.25)
    assert merged(folders) == expected_without()


def test_the_limit_of_memory_is_the_one_set(tmp_path: Path) -> None:
    folders = run(tmp_path, {20: "300 MiB", 23: "700 MiB"}, shard_bytes=10**6, worker_gib=0.5)
    assert merged(folders, "lost.txt") == "23 memory\n"


def test_several_bad_rows_of_one_shard_cost_these_rows(tmp_path: Path) -> None:
    acts = {1: "exit", 2: "memory", 17: "power", 60: "segfault"}
    folders = run(tmp_path, acts, shard_bytes=10**6)
    assert merged(folders, "lost.txt") == "1 crash\n2 memory\n17 timeout\n60 crash\n"
    assert merged(folders) == expected_without(*acts)


def test_memory_that_a_task_does_not_catch_costs_the_row(tmp_path: Path) -> None:
    folders = run(tmp_path, {23: "memory"}, task=tasks.careless)
    assert merged(folders, "lost.txt") == "23 memory\n"


def test_a_row_that_dies_once_is_kept(tmp_path: Path) -> None:
    folders = run(tmp_path, {23: "sigkill"}, witness=str(tmp_path))
    assert (merged(folders, "lost.txt"), merged(folders)) == ("", expected_without())


def test_a_row_that_kills_even_when_left_out_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"in\.jsonl, row 4: stops the worker \(crash\) even"):
        run(tmp_path, task=tasks.stubborn, shard_bytes=10**6)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        ("exit", r"its worker died 9 times, last with exit code 3"),
        ("sigkill", r"its worker died 9 times, last with signal 9"),
        ("memory", r"needs more than 0\.5 GiB outside of any row"),
    ],
)
def test_death_outside_of_rows_ends_the_run(tmp_path: Path, act: str, words: str) -> None:
    with pytest.raises(UserError, match=f"copy: s, from row 0: {words}"):
        run_shards("copy", tasks.outside, act, ["s"], tmp_path, settings(), quiet())


def test_too_many_bad_rows_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_POISON", 2)
    acts = dict.fromkeys([3, 4, 5], "exit")
    with pytest.raises(UserError, match=r"more than 2 rows cannot be worked on \(3 crash\)"):
        run(tmp_path, acts, shard_bytes=10**6)


def test_a_fault_of_the_user_crosses_unchanged(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        run(tmp_path, {23: "user"})
    assert caught.value.problem == "data.jsonl:7: value 13 is unlucky."
    assert caught.value.remedy == "Use 14."


def test_a_bug_shows_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"in _bug\n.*raise KeyError[\s\S]*no such thing"):
        run(tmp_path, {23: "bug"})


def test_a_full_disk_stays_a_full_disk_with_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        run(tmp_path, {23: "full"})
    assert (caught.value.errno, caught.value.filename) == (28, "/some/file")
    assert "in _full" in "".join(traceback.format_exception(caught.value))
