"""What ends a rank is kept in a file, beside standard error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.learning.last_words import error_file, keep_last_words

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys
from pathlib import Path
from pipeline.learning.last_words import keep_last_words
keep_last_words(Path(sys.argv[1]))
raise ValueError("too wide")
"""


def ended(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    return done.stderr


def test_the_traceback_is_kept_and_shown(tmp_path: Path) -> None:
    path = error_file(tmp_path, 3)
    shown = ended(path)
    assert path.name == "error-3.txt"
    assert path.read_text() == shown
    assert "ValueError: too wide" in shown


def test_a_folder_that_is_gone_leaves_the_terminal(tmp_path: Path) -> None:
    shown = ended(tmp_path / "gone" / "error-0.txt")
    assert shown.endswith("ValueError: too wide\n")
    assert "FileNotFound" not in shown


def test_words_of_an_earlier_attempt_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    path = error_file(tmp_path, 0)
    path.write_text("old")
    keep_last_words(path)
    assert not path.exists()
    error = OSError("new")
    sys.excepthook(OSError, error, None)
    assert path.read_text() == capsys.readouterr().err == "OSError: new\n"
