"""Stage report on the files of a small finished run."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pipeline import report
from pipeline.base.errors import EXIT_BAD_INPUT, UserError
from tests.support.finished_run import write_finished_run
from tests.support.settings import make_params, write_params

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_finished_run(tmp_path)
    return tmp_path


def outputs(project: Path) -> list[str]:
    names = ("results.md", "adapter_card.md", "work/report/loss.svg")
    return [(project / name).read_text(encoding="utf-8") for name in names]


def test_pages_and_picture_are_written_and_repeat_to_the_byte(project: Path) -> None:
    report.main(make_params())
    first = outputs(project)
    report.main(make_params())
    assert outputs(project) == first
    results, card, picture = first
    assert results.startswith("# Tracebox run\n\n**30.0 % → 70.0 %")
    assert card.startswith("---\nbase_model:")
    assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_picture_that_the_page_links_to_exists(project: Path) -> None:
    report.main(make_params())
    assert "(work/report/loss.svg)" in outputs(project)[0]


def test_stage_that_has_not_run_is_refused_and_nothing_is_written(project: Path) -> None:
    (project / "work/evaluate/scores.json").unlink()
    with pytest.raises(UserError, match=r"work/evaluate/scores\.json: file not found"):
        report.main(make_params())
    assert not (project / "results.md").exists()


def test_cut_run_is_reported_as_far_as_it_went(project: Path) -> None:
    (project / "work/evaluate/scores.json").unlink()
    report.main(make_params(), cut=True)
    results = outputs(project)[0]
    assert "**This run was cut short.**" in results
    assert "`work/evaluate/scores.json`" in results
    assert "The adapter was not measured" in results


def test_command_with_partial_on_an_empty_project(tmp_path: Path) -> None:
    write_params(tmp_path)
    command = [sys.executable, "-m", "pipeline.report"]
    where = {"cwd": tmp_path, "env": {"PYTHONPATH": str(ROOT)}, "check": False}
    assert subprocess.run(command, capture_output=True, **where).returncode == EXIT_BAD_INPUT  # type: ignore[call-overload]
    assert subprocess.run([*command, "--partial"], **where).returncode == 0  # type: ignore[call-overload]
    assert "No data stage has run." in (tmp_path / "results.md").read_text(encoding="utf-8")


def test_stage_leaves_torch_out() -> None:
    check = "import sys, pipeline.report; raise SystemExit(int('torch' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False).returncode == 0


def test_a_cut_run_does_not_write_over_the_page_of_a_finished_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report.main(make_params())
    finished = outputs(project)
    (project / "work/verify/contract.json").unlink()
    report.main(make_params(), cut=True)
    assert outputs(project) == finished
    assert "of the last finished run stays" in capsys.readouterr().out
    (project / "results.md").unlink()
    report.main(make_params(), cut=True)
    report.main(make_params(), cut=True)
    assert "cut short" in outputs(project)[0]
