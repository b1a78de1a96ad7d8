"""The train stage with other methods and optimizers: published, and exact over a restart."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from pipeline import train
from pipeline.base.artifacts import read_json, sha256_file, write_json
from pipeline.base.params import Params
from pipeline.release.adapter import export_folder
from pipeline.release.case import Case
from pipeline.release.contract import STATIC_RULES, faults, judge
from tests.support.closure import ROOT
from tests.support.packed import training_plan, write_packed
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base

RECIPES: dict[str, dict[str, Any]] = {
    "adalora, muon, noise": {"method": "adalora", "optimizer": "muon", "neftune_alpha": 5.0},
    "lora, schedule-free, LoRA+, smoothing": {
        "optimizer": "schedule-free", "lora_plus_ratio": 4.0, "label_smoothing": 0.1,
    },
    "dora, averages, dropout, decay": {
        "method": "dora", "ema_decay": 0.9, "dropout": 0.1, "weight_decay": 0.01,
    },
}  # fmt: skip


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    folder = write_tiny_base(tmp_path / "base")
    write_json(train.PREPARED, {"path": str(folder), "fingerprint": "f" * 64})
    machine = {"cpu": {"model": "a processor"}, "gpus": []}
    write_json(train.PLAN, {"machine": machine, "training": training_plan()})
    write_packed(train.DATA)
    return folder


def recipe(**changes: Any) -> Params:
    whole = make_params(**{"train.steps": 6, "train.checkpoint_every_steps": 2})
    changes = {"keep_checkpoints": 4, "rank": 4, **changes}
    return whole.model_copy(update={"train": whole.train.model_copy(update=changes)})


@pytest.mark.parametrize("name", RECIPES)
def test_a_restart_changes_no_bit_and_the_contract_holds(name: str, base: Path) -> None:
    params = recipe(**RECIPES[name])
    train.main(params)
    weights = train.OUT / "adapter/adapter_model.safetensors"
    first = sha256_file(weights)
    assert read_json(Path("run_summary.json"))["method_name"] == params.train.method
    (run,) = [path.parent for path in Path("runs").glob("*/job.json")]
    rates = [row["learning_rate"] for row in read_rows(run)]
    assert (rates[-1] == max(rates)) == (params.train.optimizer == "schedule-free")

    shutil.rmtree(run / "checkpoint-000006")
    (train.OUT / "train.json").unlink()
    train.main(params)
    assert read_json(train.OUT / "train.json")["attempts"] == 2
    assert sha256_file(weights) == first

    export_folder(train.OUT / "adapter", Path("out"), "float32")
    checks = judge(Case(Path("out"), base, params.verify), STATIC_RULES)
    assert [check.id for check in faults(checks)] == []


def read_rows(run: Path) -> list[dict[str, Any]]:
    """Figures of every step of a run."""
    lines = (run / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
