"""Parts of a file arrive whole, whether the kernel copies them or not."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pipeline.corpus.execution.copying import copy_parts

PARTS = [(0, 3), (3, 3), (5, 90_000), (99_990, 100_000)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(os.urandom(100_000))
    return path


def wanted(source: Path) -> bytes:
    data = source.read_bytes()
    return b"".join(data[start:stop] for start, stop in PARTS)


def test_parts_are_copied(source: Path, tmp_path: Path) -> None:
    assert copy_parts(source, PARTS, tmp_path / "target") == 90_008
    assert (tmp_path / "target").read_bytes() == wanted(source)


@pytest.mark.parametrize("fault", [errno.EXDEV, errno.EINVAL, errno.ENOSYS, None])
def test_they_are_copied_where_the_kernel_cannot(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int | None
) -> None:
    def refuse(*_: object, **__: object) -> int:
        if fault is None:
            return 0  # as some file systems of the kernel do
        raise OSError(fault, "refused")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    copy_parts(source, PARTS, tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == wanted(source)


def test_faults_of_the_disk_and_short_files_are_said(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EOFError):
        copy_parts(source, [(99_990, 100_001)], tmp_path / "target")

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "copy_file_range", full)
    with pytest.raises(OSError, match="full"):
        copy_parts(source, PARTS, tmp_path / "target")
