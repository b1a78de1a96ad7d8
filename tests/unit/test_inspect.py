"""The command that shows packed bins."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline import inspect, tokenize
from pipeline.base.artifacts import write_json
from pipeline.base.records import write_rows
from pipeline.base.tokenizer_files import read_tokenizer_files
from tests.support.bins import write_bins
from tests.support.closure import ROOT
from tests.support.settings import make_params, write_params
from tests.support.tiny import CHATML, write_tiny_tokenizer
from tests.support.traces import make_trace

PACKED = Path("work/tokenize")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five bins of one short document each."""
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path)
    tokenizer = write_tiny_tokenizer(tmp_path / "base")
    write_json(Path("work/prepare/base.json"), {"path": "base"})
    made = []
    for number in range(5):
        asked, said = tokenizer.encode(f"Q{number}\n").ids, tokenizer.encode(f"A{number}").ids
        made.append([(asked + said, [False] * len(asked) + [True] * len(said))])
    known = read_tokenizer_files(tmp_path / "base", None).sha256()
    write_bins(PACKED, made, 20, tokenizer_sha256=known)
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Lines that the command prints."""
    assert inspect.main(arguments) == 0
    told = capsys.readouterr()
    assert told.err == ""
    return told.out.splitlines()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a refusal."""
    assert inspect.main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("inspect: ")
    assert told.err.count("\n") == 1
    return told.err


def bins_in(lines: list[str]) -> list[int]:
    return [int(line.split()[2]) for line in lines if line.startswith("━━ bin")]


def test_three_bins_are_shown_and_written_as_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys)
    assert bins_in(lines) == [0, 2, 4]
    assert "│      3 ⟦A2⟧" in lines
    assert "work/tokenize: 5 bins, 5 documents" in lines[0]
    assert "⟦trained⟧" in lines[1]
    page = Path("work/inspect.html").read_text(encoding="utf-8")
    assert [f'id="bin-{number}"' in page for number in range(5)] == [True, False] * 2 + [True]


def test_bins_are_chosen_by_count_or_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert bins_in(shown(capsys, "--bins", "1")) == [0]
    assert bins_in(shown(capsys, "--bins", "50")) == [0, 1, 2, 3, 4]
    assert bins_in(shown(capsys, "--bin", "3", "1")) == [3, 1]
    assert bins_in(shown(capsys, "--bin", "0")) == [0]
    shown(capsys, "--html", "pages/other.html")
    assert Path("pages/other.html").is_file()


def test_what_the_stage_wrote_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    traces = [
        make_trace(f"What is {n}?", solution=f"It is {n}, so \\boxed{{3}}.") for n in range(9)
    ]
    corpus: dict[str, Any] = {"sequence_tokens": 128, "bands": [128], "stages": []}
    write_json(Path("work/plan/corpus.json"), corpus)
    write_rows(Path("work/select/traces.jsonl"), traces)
    tokenize.main(make_params())
    capsys.readouterr()
    text = "\n".join(shown(capsys, "--bins", "99", "--full"))
    manifest = json.loads((PACKED / "manifest.json").read_text())
    assert text.count("⟦It is ") == text.count("}.<|im_end|>⟧") == manifest["documents"] == 9
    assert text.count("┌─") == text.count("│      0 <|im_start|>user⏎") == 9
    for trace in traces:
        assert f"⟦{trace.solution}<|im_end|>⟧" in text
        assert f" {trace.problem}⏎" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bins", "0"), "--bins 0: there is nothing to show"),
        (("--bin", "2", "5"), "--bin 5: work/tokenize has bins 0 to 4"),
        (("--bin", "-1"), "--bin -1: work/tokenize has bins 0 to 4"),
        (("--html", "base/tokenizer.json/page.html"), "cannot be written"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, *arguments)
    assert not Path("work/inspect.html").exists()


@pytest.mark.parametrize(
    "missing",
    [
        "work/tokenize/manifest.json",
        "work/tokenize/trained.npy",
        "params.yaml",
        "base/tokenizer.json",
    ],
)
def test_what_is_not_there_is_named(capsys: pytest.CaptureFixture[str], missing: str) -> None:
    Path(missing).unlink()
    assert missing in refused(capsys)


def test_nothing_tokenized_yet_says_what_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    (PACKED / "manifest.json").unlink()
    assert "dvc repro" in refused(capsys)


def test_text_of_another_tokenizer_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    Path("base/chat_template.jinja").write_text(CHATML + "!")
    assert "has changed since. Run `dvc repro tokenize`." in refused(capsys)


def command(*arguments: str, **variables: str) -> list[str]:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import pipeline.inspect as i;"
    code += "code = i.main(); assert 'torch' not in sys.modules; raise SystemExit(code)"
    settings = [f"{name}={value}" for name, value in variables.items()]
    return ["env", "-u", "NO_COLOR", *settings, sys.executable, "-c", code, *arguments]


def test_a_terminal_gets_colours() -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(command("--bins", "1", TERM="xterm"), stdout=theirs)
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # how Linux says that nobody holds the other end
        while block := os.read(ours, 65536):
            text += block
    os.close(ours)
    assert child.wait() == 0
    assert b"\x1b[32mA0\x1b[0m" in text


def test_colours_can_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert not inspect.wants_colour(False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert inspect.wants_colour(False)
    assert not inspect.wants_colour(True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not inspect.wants_colour(False)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not inspect.wants_colour(False)


def test_a_pipe_that_nobody_reads_is_no_fault() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(command(), stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_without_unicode_gets_codes() -> None:
    done = subprocess.run(
        command(PYTHONIOENCODING="ascii"), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u27e6A2\\u27e7" in done.stdout
