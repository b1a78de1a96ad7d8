"""DVC's notes of dead processes go; those of living ones stay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.unlock import forget_dead, is_alive

DEAD = 2**22 + 1
"""Above the largest process number that Linux gives."""


def note(path: Path, write: int | None, *read: int) -> Path:
    entry = {"write": {"out": {"pid": write, "cmd": "dvc"}}} if write else {"write": {}}
    readers = [{"pid": pid, "cmd": "dvc"} for pid in read]
    path.write_text(json.dumps({**entry, "read": {"in": readers}}))
    return path


def test_a_note_of_the_dead_is_deleted(tmp_path: Path) -> None:
    path = note(tmp_path / "rwlock", DEAD, DEAD)
    assert forget_dead(path)
    assert not path.exists()
    assert not forget_dead(path)


@pytest.mark.parametrize("pids", [(os.getpid(),), (DEAD, os.getpid()), (None, DEAD, os.getpid())])
def test_a_living_holder_keeps_its_note(tmp_path: Path, pids: tuple[int, ...]) -> None:
    path = note(tmp_path / "rwlock", *pids)
    assert not forget_dead(path)
    assert path.exists()


@pytest.mark.parametrize("text", ["", '{"write": {"out"', "[]", "\x00\x00"])
def test_a_note_cut_short_is_deleted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rwlock"
    path.write_text(text)
    assert forget_dead(path)


def test_a_zombie_does_not_live() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    for _ in range(500):
        if not is_alive(child.pid):
            break
        time.sleep(0.01)
    assert Path(f"/proc/{child.pid}").exists(), "not yet collected, so it must be a zombie"
    assert not is_alive(child.pid)
    child.wait()
    assert is_alive(os.getpid())


def test_a_name_with_brackets_does_not_confuse(tmp_path: Path) -> None:
    for pid, state in ((1, "S"), (2, "Z")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) Z (b) {state} 0 0")
    assert is_alive(1, tmp_path)
    assert not is_alive(2, tmp_path)
