"""A lock is as alive as its holder, whatever the file says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.base.errors import UserError
from pipeline.base.lock import hold, holder, is_held


def test_the_lock_is_gone_with_its_holder_and_its_text_alone_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    path.write_text("999999\n")
    assert not is_held(path)
    stream = hold(path, "a trainer")
    assert is_held(path)
    assert holder(path) == os.getpid()
    stream.close()
    assert not is_held(path)
    assert not is_held(tmp_path / "absent")


def test_a_second_holder_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "folder/a.lock"
    with hold(path, "a stage"):
        with pytest.raises(UserError, match=f"a stage is already running \\(pid {os.getpid()}\\)"):
            hold(path, "a stage")
    hold(path, "a stage").close()
