"""The train stage on the tiny base: what it leaves, what it publishes, what it keeps."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pipeline import train
from pipeline.base.artifacts import read_json, sha256_file, write_json
from pipeline.base.budget import Budget
from pipeline.learning.checkpoint import SCORES_FILE, all_checkpoints
from pipeline.learning.job import describe
from pipeline.train import device_names, last_save_reserve, stop_time
from tests.support.packed import training_plan, write_packed
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base

ROOT = Path(__file__).resolve().parents[2]
SETTINGS: dict[str, Any] = {
    "train.steps": 6,
    "train.checkpoint_every_steps": 2,
    "train.keep_checkpoints": 1,
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    base = write_tiny_base(tmp_path / "base")
    write_json(train.PREPARED, {"path": str(base), "fingerprint": "f" * 64})
    machine = {"cpu": {"model": "a processor"}, "gpus": []}
    write_json(train.PLAN, {"machine": machine, "training": training_plan()})
    write_packed(train.DATA)
    return tmp_path


def test_a_run_leaves_its_record_and_a_published_pair(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train.main(make_params(**SETTINGS))
    record = read_json(train.OUT / "train.json")
    assert record["steps"] == record["steps_planned"] == 6
    assert record["ended_by"] == "steps"
    assert record["devices"] == ["a processor"]
    assert record["passes"] == pytest.approx(2.0)
    curriculum = record["curriculum"]
    assert curriculum["passes"] == {"all": 2.0}
    assert list(curriculum["sources"].values()) == [2.0, 2.0, 2.0]
    (stage,) = curriculum["stages"]
    assert (stage["steps"], stage["tokens"]) == (6, record["tokens"])
    assert stage["last_loss"] == record["final_loss"] != stage["first_loss"]
    assert curriculum["planned"]["passes"] == curriculum["passes"]
    with (train.OUT / "steps.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5, 6]
    summary = read_json(project / "run_summary.json")
    assert summary["status"] == "partial"
    assert summary["method_name"] == "lora"
    assert Path(summary["checkpoint_path"]).is_dir()
    for name, expected in summary["adapter"]["files"].items():
        assert sha256_file(project / "adapter" / name) == expected
    assert "checkpoint at step 6/6 published" in capsys.readouterr().out


def test_retention_leaves_the_newest_and_the_best(project: Path) -> None:
    params = make_params(**SETTINGS)
    plan = read_json(train.PLAN)
    run = describe(params.train, read_json(train.PREPARED), plan, train.DATA).run
    run.mkdir(parents=True)
    score = {"checkpoint": "checkpoint-000002", "score": 0.5}
    (run / SCORES_FILE).write_text(json.dumps(score) + "\n")
    train.main(params)
    left = [folder.name for folder in all_checkpoints(run)]
    assert left == ["checkpoint-000002", "checkpoint-000006"]


def test_a_finished_run_is_assembled_again_without_training(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train.main(make_params(**SETTINGS))
    first = sha256_file(train.OUT / "adapter" / "adapter_model.safetensors")
    (train.OUT / "train.json").unlink()
    capsys.readouterr()
    train.main(make_params(**SETTINGS))
    assert "starts from the base" not in capsys.readouterr().out
    assert sha256_file(train.OUT / "adapter" / "adapter_model.safetensors") == first
    assert json.loads((train.OUT / "train.json").read_text())["attempts"] == 1


def test_a_damaged_last_checkpoint_is_trained_again(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train.main(make_params(**{**SETTINGS, "train.keep_checkpoints": 3}))
    first = sha256_file(train.OUT / "adapter" / "adapter_model.safetensors")
    (run,) = [p.parent for p in Path("runs").glob("*/job.json")]
    weights = run / "checkpoint-000006/adapter/adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8] + b"\0" * 8)
    train.main(make_params(**{**SETTINGS, "train.keep_checkpoints": 3}))
    assert "checkpoint-000006 is not used" in capsys.readouterr().out
    assert sha256_file(train.OUT / "adapter" / "adapter_model.safetensors") == first
    assert read_json(train.OUT / "train.json")["attempts"] == 2


def test_a_failed_run_is_told_what_broke_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(supervisor: train.Supervisor, *_times: float) -> None:
        error = supervisor.job.run / "error-0.txt"
        error.write_text("IndexError: index out of range in self\n")
        raise RuntimeError("the training processes ended with [1]")

    monkeypatch.setattr(train.Supervisor, "run", fail)
    with pytest.raises(RuntimeError, match="ended with"):
        train.main(make_params(**SETTINGS))
    assert "train: diagnosis: token_out_of_range: " in capsys.readouterr().out
    assert [path.read_text() for path in Path("runs").glob("*/ended.txt")] == [
        "the training processes ended with [1]\n"
    ]


def test_devices_are_named_as_found() -> None:
    machine = {"cpu": {"model": "c"}, "gpus": [{"name": "a"}, {"name": "b"}, {"name": "z"}]}
    assert device_names(machine, 2, "cuda") == ["a", "b"]
    assert device_names(machine, 1, "cpu") == ["c"]


def test_training_ends_before_evaluation_and_reserve() -> None:
    params = make_params(
        **{"budget.hours": 2.0, "budget.evaluation_share": 0.2, "budget.reserve_minutes": 10.0}
    )
    budget = Budget(Path("clock"), 7200, 0, 1000, 1000 + 7200, lambda: 1000.0)
    assert stop_time(params, budget) == 1000 + 7200 - 600 - 720
    assert last_save_reserve(params) == 300
