from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.artifacts import read_json, write_json
from pipeline.base.budget import start_session
from pipeline.export import main as export
from pipeline.publish import main
from pipeline.release.case import Case
from pipeline.release.contract import verify_adapter
from pipeline.release.publish import publish, published_summary
from tests.support.adapters import lora_tensors, write_adapter
from tests.support.publishing import summary_of
from tests.support.released import write_project
from tests.support.settings import make_params

SCORES = {
    "pass_at_1": 0.125, "pass_at_1_interval": [0.06, 0.23], "best_of_k": 0.5,
    "best_of_k_interval": [0.4, 0.6], "k": 3, "problems": 64,
}  # fmt: skip


def verified(root: Path) -> dict[str, Any]:
    case = Case(Path("work/export/adapter"), root / "base", make_params().verify)
    contract = verify_adapter(case, loading=False)
    write_json(root / "work/verify/contract.json", contract)
    return contract


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose pipeline has come to its end."""
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    verified(tmp_path)
    for name in ("baseline", "evaluate"):
        write_json(tmp_path / f"work/{name}/scores.json", SCORES)
    (tmp_path / "results.md").touch()
    start_session(tmp_path, 1.0)
    return tmp_path


def test_the_end_of_a_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    summary = published_summary(project)
    assert summary is not None
    assert (summary["status"], summary["contract"]) == ("complete", "passed")
    assert summary["checkpoint_path"] == "runs/k/checkpoint-4"
    assert (summary["step"], summary["attempts"], summary["ended_by"]) == (4, 2, "steps")
    assert summary["total_elapsed_seconds"] >= 0
    assert read_json(project / "runs/clock.json")["finished"] is True
    printed = capsys.readouterr().out
    assert "base     pass@1 12.5% [6.0%, 23.0%] · best of 3 50.0%" in printed
    assert "adapter  pass@1" in printed
    assert printed.rstrip().endswith("Details: results.md")


def test_a_second_run_counts_no_time_again(project: Path) -> None:
    main([])
    first = (project / "run_summary.json").read_bytes()
    start_session(project, 1.0)
    assert main([]) == 0
    assert (project / "run_summary.json").read_bytes() == first


def test_the_clock_stays_open_when_the_pipeline_failed(project: Path) -> None:
    assert main(["--unfinished"]) == 0
    assert read_json(project / "runs/clock.json")["finished"] is False


def test_without_checkpoints_the_final_weights_are_named(project: Path) -> None:
    (project / "runs/k/checkpoint-4/COMPLETE").unlink()
    assert main([]) == 0
    assert read_json(project / "run_summary.json")["checkpoint_path"] == "work/train"


def test_nothing_at_all(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "work/train/train.json").unlink()
    assert main([]) == 1
    error = capsys.readouterr().err
    assert "work/train/train.json is missing" in error
    assert "no adapter yet" in error
    assert read_json(project / "runs/clock.json")["finished"] is False


def partial(project: Path) -> None:
    seen = read_json(project / "work/prepare/base.json")["fingerprint"]
    source = project / "work/export/adapter"
    summary = {**summary_of(2), "checkpoint_path": "runs/k/checkpoint-4", "base_fingerprint": seen}
    publish(project, source, summary, "partial")


def test_a_partial_adapter_is_kept_and_said(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partial(project)
    (project / "work/verify/contract.json").unlink()
    assert main(["--unfinished"]) == 0
    assert "holds the partial adapter of run k, step 2 of 9" in capsys.readouterr().out
    assert read_json(project / "run_summary.json")["status"] == "partial"


def test_a_partial_adapter_that_is_broken_is_no_adapter(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partial(project)
    (project / "work/verify/contract.json").unlink()
    (project / "adapter/notes").touch()
    assert main([]) == 1
    assert "'notes': surprise file" in capsys.readouterr().err


def test_a_broken_contract_is_not_published(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "work/export/adapter/extra").touch()
    verified(project)
    assert main([]) == 1
    assert "the contract is broken (file-set)" in capsys.readouterr().err
    assert not (project / "adapter").exists()


def test_an_export_that_was_not_verified_is_not_published(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export(make_params(**{"export.dtype": "float32"}))
    assert main([]) == 1
    assert "is not what was verified" in capsys.readouterr().err


def test_an_export_of_an_earlier_training_is_not_published(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = {name: 2 * value for name, value in lora_tensors(project / "base", 4).items()}
    write_adapter(project / "work/train/adapter", project / "base", tensors=tensors)
    assert main([]) == 1
    assert "is not an export of work/train/adapter" in capsys.readouterr().err


def test_a_torn_pair_is_mended_first(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partial(project)
    summary = json.loads((project / "run_summary.json").read_text())
    write_json(project / "run_summary.json", {**summary, "incoming": summary})
    (project / "work/verify/contract.json").unlink()
    assert main([]) == 0
    assert "now speaks of the adapter in place" in capsys.readouterr().out
    assert json.loads((project / "run_summary.json").read_text()) == summary
