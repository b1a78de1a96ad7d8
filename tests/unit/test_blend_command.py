"""The command `python -m pipeline.blend`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.base.artifacts import write_json
from pipeline.blend import main
from tests.support.adapters import lora_tensors, write_adapter
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a base, two adapters of rank 40, and the record of the base."""
    monkeypatch.chdir(tmp_path)
    make_params(tmp_path, **{"verify.max_rank": 48})
    base = write_tiny_base(tmp_path / "base")
    write_json(tmp_path / "work/prepare/base.json", {"path": str(base)})
    write_adapter(tmp_path / "a", base, rank=40)
    other = {name: value[::-1].copy() for name, value in lora_tensors(base, 40).items()}
    write_adapter(tmp_path / "b", base, rank=40, tensors=other)
    return tmp_path


def test_what_was_lost_is_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a", "--alpha", "0.5", "--out", "half"]) == 0
    assert capsys.readouterr().out == "half: rank 40, F32, exact sum\n"
    assert main(["a", "b", "--weights", "3", "1", "--out", "both", "--dtype", "bfloat16"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("both: rank 48, BF16, 4 modules cut to that rank, at most ")
    assert "values rounded by at most" in line
    assert (project / "both").is_dir()


def test_a_mistake_is_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a", "--out", "b"]) == 2
    assert capsys.readouterr().err.startswith("blend: b: exists already.")
    assert main(["a", "--base", str(project / "nowhere"), "--out", "c"]) == 2
    assert "nowhere" in capsys.readouterr().err
    (project / "work/prepare/base.json").unlink()
    assert main(["a", "--out", "c"]) == 2
    assert "work/prepare/base.json: file not found" in capsys.readouterr().err
    assert not (project / "c").exists()
