from __future__ import annotations

import ctypes
import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.base.errors import UserError
from pipeline.release.swap import exchange, move_in


def _folder(path: Path, content: str) -> Path:
    path.mkdir()
    (path / "content").write_text(content)
    return path


def _content(path: Path) -> str:
    return (path / "content").read_text()


def test_exchange_on_this_system(tmp_path: Path) -> None:
    first, second = _folder(tmp_path / "a", "1"), _folder(tmp_path / "b", "2")
    if exchange(first, second):
        assert (_content(first), _content(second)) == ("2", "1")
    else:
        assert (_content(first), _content(second)) == ("1", "2")


class _Library:
    """A libc whose renameat2 fails with one errno."""

    def __init__(self, code: int) -> None:
        def renameat2(*arguments: Any) -> int:
            ctypes.set_errno(code)
            return -1

        self.renameat2 = renameat2


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP])
def test_a_kernel_or_file_system_without_exchange(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: _Library(code))
    new, target = _folder(tmp_path / "new", "2"), _folder(tmp_path / "adapter", "1")
    assert exchange(new, target) is False
    move_in(new, target, tmp_path / "old")
    assert (_content(target), _content(tmp_path / "old")) == ("2", "1")


def test_a_libc_without_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: SimpleNamespace())
    assert exchange(tmp_path / "a", tmp_path / "b") is False


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EXDEV])
def test_a_mount_point_is_the_users_to_mend(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: _Library(code))
    new, target = _folder(tmp_path / "new", "2"), _folder(tmp_path / "adapter", "1")
    with pytest.raises(UserError, match="mount point") as caught:
        move_in(new, target, tmp_path / "old")
    assert "Unmount it" in str(caught.value)
    assert (_content(target), _content(new)) == ("1", "2")


def test_a_mount_point_where_names_cannot_be_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(self: Path, target: Path) -> None:
        raise OSError(errno.EBUSY, "busy", str(self))

    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: _Library(errno.EINVAL))
    monkeypatch.setattr(Path, "rename", busy)
    new, target = _folder(tmp_path / "new", "2"), _folder(tmp_path / "adapter", "1")
    with pytest.raises(UserError, match="mount point"):
        move_in(new, target, tmp_path / "old")


def test_other_failures_are_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: _Library(errno.EACCES))
    new, target = _folder(tmp_path / "new", "2"), _folder(tmp_path / "adapter", "1")
    with pytest.raises(PermissionError):
        exchange(new, target)
    with pytest.raises(PermissionError):
        move_in(new, target, tmp_path / "old")


def test_the_first_folder_is_just_moved(tmp_path: Path) -> None:
    move_in(_folder(tmp_path / "new", "1"), tmp_path / "adapter", tmp_path / "old")
    assert _content(tmp_path / "adapter") == "1"
    assert not (tmp_path / "old").exists()
