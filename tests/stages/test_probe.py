"""Stage probe: what it writes, twice the same, without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.hardware import probe as probing
from pipeline.hardware.machine import machine_from_json
from pipeline.probe import MACHINE, main
from tests.support.machines import T4X2
from tests.support.settings import make_params

ROOT = Path(__file__).resolve().parents[2]


def test_the_file_is_stable_and_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probing, "list_gpus", list)
    main(make_params())
    first = MACHINE.read_bytes()
    main(make_params())
    assert MACHINE.read_bytes() == first
    tree = json.loads(first)
    assert tree["schema_version"] == 1
    assert tree["gpus"] == []
    assert machine_from_json(tree).cpu.physical_cores >= 1
    for package in ("torch", "transformers", "peft", "python"):
        assert tree[package][0].isdigit()


def test_unusable_gpus_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    listed = [probing.Listed(0, "GPU-1", "Tesla T4")]
    monkeypatch.setattr(probing, "list_gpus", lambda: listed)
    monkeypatch.setattr(probing, "ask_torch", lambda: ((), "no CUDA build"))
    main(make_params())
    assert "can use 0: no CUDA build" in capsys.readouterr().out
    assert json.loads(MACHINE.read_text())["gpus"] == []


def test_usable_gpus_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listed = [probing.Listed(index, f"GPU-{index}", "Tesla T4") for index in range(2)]
    monkeypatch.setattr(probing, "list_gpus", lambda: listed)
    monkeypatch.setattr(probing, "ask_torch", lambda: (T4X2.gpus, ""))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    main(make_params())
    tree = json.loads(MACHINE.read_text())
    assert tree["gpus"][1] == {
        "index": 1, "name": "Tesla T4", "memory_gib": 14.5, "capability": [7, 5],
    }  # fmt: skip
    assert tree["gpu_note"] is None


def test_probe_and_plan_leave_torch_alone() -> None:
    code = (
        "import sys, pipeline.probe, pipeline.plan;"
        "print([m for m in ('torch', 'transformers', 'peft', 'datasets') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
