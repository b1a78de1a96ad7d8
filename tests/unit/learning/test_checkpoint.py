"""Only a whole checkpoint counts, and a failed save costs nothing that was saved before."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.artifacts import MARKER
from pipeline.base.errors import UserError
from pipeline.learning import checkpoint
from pipeline.learning.checkpoint import (
    TrainState,
    all_checkpoints,
    as_rows,
    best_scored,
    clear_torn,
    discard_old,
    newest_complete,
    read_state,
    reject_damaged,
    write_checkpoint,
)


def state(step: int) -> TrainState:
    return TrainState(step, step * 100, step * 50, step * 1.5, 1.0, 0)


def write_two_files(folder: Path) -> None:
    (folder / "adapter").mkdir()
    (folder / "adapter" / "weights").write_bytes(b"w" * 100)
    (folder / "optimizer.safetensors").write_bytes(b"o" * 100)


def save(run: Path, *steps: int) -> list[Path]:
    return [write_checkpoint(run, state(s), write_two_files, 0) for s in steps]


def mark(folder: Path, **changes: Any) -> None:
    """Change what the marker of a checkpoint says."""
    marker = json.loads((folder / MARKER).read_text())
    (folder / MARKER).write_text(json.dumps({**marker, **changes}))


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_state_comes_back_and_the_newest_wins_by_number(tmp_path: Path) -> None:
    save(tmp_path, 2, 10, 9)
    newest = newest_complete(tmp_path, print)
    assert newest is not None
    assert read_state(newest) == state(10)
    assert [f.name for f in all_checkpoints(tmp_path)] == [
        "checkpoint-000002",
        "checkpoint-000009",
        "checkpoint-000010",
    ]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: (f / "optimizer.safetensors").unlink(), "optimizer.safetensors is missing"),
        (lambda f: (f / "adapter/weights").write_bytes(b""), "adapter/weights is damaged"),
        (lambda f: (f / "state.json").write_text("{}"), "state.json is damaged"),
        (lambda f: (f / MARKER).unlink(), "no completeness marker"),
        (lambda f: (f / MARKER).write_text("{"), "unreadable completeness marker"),
        (lambda f: (f / MARKER).write_text("[]"), "unreadable completeness marker"),
        (lambda f: mark(f, files=["a"]), "unreadable completeness marker"),
        (lambda f: mark(f, run="another"), "it was written by run another at step 2"),
        (lambda f: mark(f, step=7), "it was written by run {run} at step 7"),
    ],
)
def test_a_damaged_newest_is_named_and_the_one_before_is_taken(
    tmp_path: Path, damage: object, said: str
) -> None:
    _, last = save(tmp_path, 1, 2)
    damage(last)  # type: ignore[operator]
    log: list[str] = []
    newest = newest_complete(tmp_path, log.append)
    assert newest is not None
    assert newest.name == "checkpoint-000001"
    assert log == [f"skipping {last}: {said.format(run=tmp_path.name)}"]


def test_a_full_disk_leaves_the_last_good_one_and_no_litter(tmp_path: Path) -> None:
    save(tmp_path, 1)

    def fails(folder: Path) -> None:
        write_two_files(folder)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_checkpoint(tmp_path, state(2), fails, 0)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint-000001"]


def test_a_save_that_cannot_fit_is_refused_before_it_starts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a checkpoint needs .* GiB"):
        write_checkpoint(tmp_path, state(1), write_two_files, 1 << 60)
    assert not list(tmp_path.iterdir())


def test_what_a_killed_save_left_is_no_checkpoint_and_is_cleared(tmp_path: Path) -> None:
    torn = tmp_path / ".building-checkpoint-000003"
    torn.mkdir()
    (torn / "optimizer.safetensors").write_bytes(b"half")
    assert newest_complete(tmp_path, print) is None
    clear_torn(tmp_path)
    assert not torn.exists()


def test_retention_keeps_the_newest_and_what_is_spoken_of(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3, 4)
    gone = discard_old(tmp_path, keep=2, spare={"checkpoint-000001"})
    assert [f.name for f in gone] == ["checkpoint-000002"]
    assert [f.name for f in all_checkpoints(tmp_path)] == [
        "checkpoint-000001",
        "checkpoint-000003",
        "checkpoint-000004",
    ]


def test_an_unfinished_folder_does_not_count_among_the_kept(tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    (tmp_path / "checkpoint-000009").mkdir()
    assert discard_old(tmp_path, keep=2, spare=set()) == []


def test_a_cut_last_line_of_a_log_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"ste')
    assert as_rows(path) == [{"step": 1}, {"step": 2}]
    assert as_rows(tmp_path / "absent.jsonl") == []


def test_names_of_other_folders_are_not_taken_for_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-best").mkdir()
    assert all_checkpoints(tmp_path) == []
    with pytest.raises(ValueError, match="not named like"):
        checkpoint.step_of(tmp_path / "checkpoint-best")


def test_a_damaged_one_loses_its_marker_and_nothing_else(tmp_path: Path) -> None:
    good, bad = save(tmp_path, 1, 2)
    (bad / "adapter/weights").write_bytes(b"torn")
    before, log = contents(bad), list[str]()
    reject_damaged(tmp_path, log.append)
    after = contents(bad)
    assert log == [f"{bad} is not used: adapter/weights is damaged"]
    assert after.pop(checkpoint.REJECTED) == before.pop(MARKER)
    assert after == before
    assert MARKER in contents(good)


def test_a_new_checkpoint_sets_aside_what_has_its_name(tmp_path: Path) -> None:
    foreign = tmp_path / "checkpoint-000003"
    for text in ("someone's", "someone else's"):
        foreign.mkdir()
        (foreign / "weights.bin").write_text(text)
        (made,) = save(tmp_path, 3)
        assert made == foreign
        made.rename(tmp_path / f"made-{len(text)}")
    kept = sorted(tmp_path.glob("checkpoint-000003.set-aside-*/weights.bin"))
    assert [path.read_text() for path in kept] == ["someone's", "someone else's"]
    assert all_checkpoints(tmp_path) == []


def test_retention_never_touches_what_is_damaged_or_foreign(tmp_path: Path) -> None:
    _, damaged, other, *_ = save(tmp_path, 1, 2, 3, 4, 5)
    (damaged / "state.json").write_text("{}")
    mark(other, run="another")
    foreign = tmp_path / "checkpoint-000000"
    foreign.mkdir()
    (foreign / "pytorch_model.bin").write_text("theirs")
    before = {folder: contents(folder) for folder in (damaged, other, foreign)}
    reject_damaged(tmp_path, lambda _: None)
    gone = discard_old(tmp_path, keep=1, spare=set())
    assert [folder.name for folder in gone] == ["checkpoint-000001", "checkpoint-000004"]
    for folder, files in before.items():
        assert set(contents(folder).values()) == set(files.values())


def test_until_the_new_one_is_whole_the_old_ones_stay(tmp_path: Path) -> None:
    save(tmp_path, 1)

    def look(folder: Path) -> None:
        write_two_files(folder)
        assert discard_old(tmp_path, keep=1, spare=set()) == []

    write_checkpoint(tmp_path, state(2), look, 0)
    assert [f.name for f in discard_old(tmp_path, keep=1, spare=set())] == ["checkpoint-000001"]


def test_the_best_by_score_is_known_among_those_that_are_whole(tmp_path: Path) -> None:
    assert best_scored(tmp_path, print) is None
    save(tmp_path, 1, 2, 3)
    (tmp_path / "checkpoint-000009").mkdir()
    rows = [
        '{"checkpoint": "checkpoint-000001", "score": 0.9}',
        '{"checkpoint": "checkpoint-000001", "score": 0.4}',
        '{"checkpoint": "checkpoint-000002", "score": 0.5}',
        '{"checkpoint": "checkpoint-000003", "score": NaN}',
        '{"checkpoint": "checkpoint-000009", "score": 0.99}',
        '{"score": 1}',
    ]
    (tmp_path / checkpoint.SCORES_FILE).write_text("\n".join(rows) + "\n")
    log: list[str] = []
    assert best_scored(tmp_path, log.append) == "checkpoint-000002"
    assert len(log) == 2
    assert "is no score of a checkpoint" in log[0]
