"""The whole line on a tiny base: killed anywhere it ends with the same adapter."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipeline.base.artifacts import read_json, sha256_file
from tests.support.closure import ROOT
from tests.support.line import python, run, run_until, write_project

STAGES = list(YAML(typ="safe").load((ROOT / "dvc.yaml").read_text())["stages"])
ALWAYS = ["prepare", "probe"]

pytestmark = pytest.mark.slow


def stages_run(output: str) -> list[str]:
    return [line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage")]


def adapter_hash(project: Path) -> str:
    return sha256_file(project / "adapter/adapter_model.safetensors")


def verified(project: Path) -> bool:
    return python(project, "-m", "pipeline.verify", "--published").returncode == 0


def edit_params(project: Path, **changes: object) -> None:
    """Change keys of a project's params.yaml."""
    yaml = YAML()
    tree = yaml.load((project / "params.yaml").read_text())
    for dotted, value in changes.items():
        section, key = dotted.split(".")
        tree[section][key] = value
    with (project / "params.yaml").open("w") as stream:
        yaml.dump(tree, stream)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose line has run through, undisturbed."""
    project = write_project(tmp_path_factory.mktemp("line") / "project")
    code, output = run(project)
    assert code == 0, output
    assert stages_run(output) == STAGES
    (project.parent / "unbroken").write_text(adapter_hash(project))
    return project


def test_it_ends_with_a_verified_adapter_and_a_page(finished: Path) -> None:
    assert verified(finished)
    summary = read_json(finished / "run_summary.json")
    assert summary["status"] == "complete"
    assert summary["contract"] == "passed"
    assert "| " in (finished / "results.md").read_text()


def test_a_second_run_repeats_nothing_and_puts_a_deleted_adapter_back(finished: Path) -> None:
    before = adapter_hash(finished)
    for path in (finished / "adapter").iterdir():
        path.unlink()
    (finished / "adapter").rmdir()
    (finished / "run_summary.json").unlink()
    code, output = run(finished)
    assert code == 0, output
    assert stages_run(output) == ALWAYS
    assert adapter_hash(finished) == before


def test_an_edit_repeats_what_depends_on_it_and_nothing_else(finished: Path) -> None:
    edit_params(finished, **{"report.title": "Another title"})
    code, output = run(finished)
    assert code == 0, output
    assert stages_run(output) == [*ALWAYS, "report"]
    report = finished / "pipeline/report.py"
    report.write_text(report.read_text() + "\n")
    assert stages_run(run(finished)[1]) == [*ALWAYS, "report"]
    edit_params(finished, **{"train.learning_rate": 0.002})
    code, output = run(finished)
    assert code == 0, output
    assert stages_run(output) == [*ALWAYS, *STAGES[STAGES.index("train") :]]


def test_killed_in_every_stage_it_ends_with_the_same_bytes(finished: Path, tmp_path: Path) -> None:
    project = write_project(tmp_path / "project")
    for stage in STAGES:

        def in_stage(line: str, stage: str = stage) -> bool:
            if stage == "train":
                return "checkpoint at step" in line
            return line.startswith(f"> python -m pipeline.{stage}")

        output = run_until(project, in_stage)
        assert stages_run(output)[-1] == stage
        if stage == "train":
            assert read_json(project / "run_summary.json")["status"] == "partial"
            assert verified(project)
    code, output = run(project)
    assert code == 0, output
    assert verified(project)
    assert adapter_hash(project) == (finished.parent / "unbroken").read_text()


def test_killed_after_the_first_checkpoint_a_valid_pair_remains(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", **{"train.steps": 5000})
    run_until(project, lambda line: "checkpoint at step" in line)
    summary = read_json(project / "run_summary.json")
    assert summary["status"] == "partial"
    assert verified(project)
    output = run_until(project, lambda line: "resumed from" in line)
    assert "resumed from" in output


def test_a_budget_that_cuts_training_still_ends_well_and_in_time(tmp_path: Path) -> None:
    project = write_project(
        tmp_path / "project",
        **{
            "budget.hours": 0.045,
            "budget.reserve_minutes": 1.2,
            "budget.evaluation_share": 0.1,
            "train.steps": 1_000_000,
            "train.checkpoint_every_steps": 500,
        },
    )
    started = time.monotonic()
    code, output = run(project)
    assert code == 0, output
    assert time.monotonic() - started < 0.045 * 3600
    assert verified(project)
    summary = read_json(project / "run_summary.json")
    assert (summary["status"], summary["ended_by"]) == ("complete", "budget")
    with (project / "work/train/steps.csv").open() as stream:
        rates = [float(row["learning_rate"]) for row in csv.DictReader(stream)]
    # A machine that slows down at the very end costs the last steps of the decay
    # (tests/unit/learning/test_clock.py draws such machines); elsewhere it is below 0.02.
    assert rates[-1] < 0.05 * max(rates)
