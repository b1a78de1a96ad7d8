"""The header reader against the reference, on files that nobody would write by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.base.safetensors_file import Header
from tests.support import headers
from tests.support.headers import DATA_BYTES, accepted, disagreement, files


def test_the_reader_never_crashes_and_never_accepts_more_than_the_reference(
    tmp_path: Path,
) -> None:
    faults: list[str] = []
    count = 3000
    sound = accepted(tmp_path, 0, count, faults.append)
    assert faults == []
    # Else the fuzzer would only try files that any reader refuses, or none of them.
    assert count // 50 < sound < count // 2


def test_the_same_seed_gives_the_same_files() -> None:
    assert list(files(1, 50)) == list(files(1, 50))
    assert list(files(1, 50)) != list(files(2, 50))


def test_a_reader_that_accepts_more_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headers, "read_header", lambda path: Header({}, 0))
    assert "the reference says" in str(disagreement(tmp_path / "x", b"no header"))
    sound = next(whole for whole in files(0, 99) if whole[-DATA_BYTES:] == bytes(DATA_BYTES))
    assert disagreement(tmp_path / "x", sound) is not None
