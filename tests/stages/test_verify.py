from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.base.adapter_format import CONFIG_FILE, lora_key
from pipeline.base.artifacts import write_json
from pipeline.release.publish import publish
from pipeline.verify import command, main
from tests.support.adapters import Tensors, lora_tensors, write_adapter
from tests.support.publishing import summary_of
from tests.support.released import write_project
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base

Q0 = "model.layers.0.self_attn.q_proj"
GOOD_LOAD: dict[str, Any] = {
    "tensors": 8, "missing": [], "unexpected": [], "different": [], "scales": [2.0],
    "finite_logits": True, "largest_logit_change": 0.5, "repeatable": True,
    "base_unchanged": True,
    "placement": {"device": "cpu", "dtype": "float32", "quantization": "none"},
    "versions": {"peft": "0.9.0"},
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_project(tmp_path)


@pytest.fixture
def no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the seconds of a real load; the `slow` test below does it."""
    monkeypatch.setattr("pipeline.release.load_rule.run_child", lambda base, adapter: GOOD_LOAD)


def statuses(path: Path) -> dict[str, str]:
    return {c["id"]: c["status"] for c in json.loads(path.read_text())["checks"]}


@pytest.mark.usefixtures("no_child")
def test_the_stage_records_a_kept_contract(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(make_params())
    record = json.loads(Path("work/verify/contract.json").read_text())
    assert record["passed"] is True
    found = statuses(Path("work/verify/contract.json"))
    assert {name for name, status in found.items() if status != "passed"} == {"run-summary"}
    assert "Contract kept" in capsys.readouterr().out


@pytest.mark.usefixtures("no_child")
def test_another_base_than_the_one_trained_on_breaks_it(project: Path) -> None:
    write_tiny_base(project / "base", seed=1)
    with pytest.raises(SystemExit) as ended:
        main(make_params())
    assert ended.value.code == 1
    record = json.loads(Path("work/verify/contract.json").read_text())
    assert record["passed"] is False
    assert [c["id"] for c in record["checks"] if c["passed"] is False] == ["base"]


@pytest.mark.slow
def test_as_a_command_with_a_real_load(project: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.verify"],
        capture_output=True, text=True, check=False, cwd=project,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    load = json.loads(Path("work/verify/contract.json").read_text())["checks"][-1]
    assert (load["id"], load["status"]) == ("load", "passed")
    assert load["figure"] > 0
    assert "peft 0.9.0, float32 on cpu" in load["detail"]


@pytest.mark.usefixtures("no_child")
def test_the_published_pair(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["--published"]) == 1
    assert "adapter is not a folder" in capsys.readouterr().out
    seen = json.loads(Path("work/prepare/base.json").read_text())["fingerprint"]
    summary = {**summary_of(4), "base_fingerprint": seen}
    publish(project, project / "work/export/adapter", summary, "partial")
    assert command(["--published", "--json", "out.json"]) == 0
    assert set(statuses(Path("out.json")).values()) == {"passed"}
    write_json(project / "run_summary.json", {"status": "partial"})
    assert command(["--published", "--json", "out.json"]) == 1
    assert statuses(Path("out.json"))["run-summary"] == "failed"
    assert statuses(Path("out.json"))["load"] == "not reached"


@pytest.mark.usefixtures("no_child")
def test_a_foreign_adapter(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_adapter(project / "foreign", project / "base")
    assert command(["--adapter", str(folder)]) == 0
    assert "n/a  base" in capsys.readouterr().out
    assert command(["--adapter", str(folder), "--base", str(project / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_the_static_form_loads_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the base was loaded")

    monkeypatch.setattr("pipeline.release.load_rule.run_child", never)
    monkeypatch.setattr("pipeline.release.base_values.mapped", never)
    folder = write_adapter(project / "foreign", project / "base")
    assert command(["--adapter", str(folder), "--static"]) == 0
    printed = capsys.readouterr().out
    assert "Contract kept" in printed
    assert "PEFT 0.9.0 loads it" not in printed
    assert "base-values" not in printed


def spoilt(name: str, change: Callable[[Any], Any]) -> Callable[[Tensors], None]:
    def apply(tensors: Tensors) -> None:
        tensors[name] = change(tensors[name])

    return apply


def no_effect(tensors: Tensors) -> None:
    tensors.update({n: np.zeros_like(v) for n, v in tensors.items() if ".lora_B." in n})


def renamed(tensors: Tensors) -> None:
    for name in list(tensors):
        tensors[name.replace("base_model.model.", "")] = tensors.pop(name)


def with_embedding(tensors: Tensors) -> None:
    tensors["base_model.model.model.embed_tokens.weight"] = np.ones((4, 4), np.float32)


def with_nan(value: Any) -> Any:
    value[0, 0] = np.nan
    return value


def linked(folder: Path) -> None:
    (folder / CONFIG_FILE).rename(folder.parent / "elsewhere.json")
    (folder / CONFIG_FILE).symlink_to(folder.parent / "elsewhere.json")


IN_THE_FOLDER: dict[str, tuple[Callable[[Path], object], str]] = {
    "extra file": (lambda folder: (folder / "README.md").touch(), "README.md"),
    "symlink": (linked, "'adapter_config.json' is a symbolic link"),
    ".bin": (lambda folder: (folder / "adapter_model.bin").touch(), "can run code"),
}

IN_THE_TENSORS: dict[str, tuple[Callable[[Tensors], None], str]] = {
    "full module": (with_embedding, "embed_tokens.weight"),
    "renamed keys": (renamed, "does not start with 'base_model.model.'"),
    "all-zero B": (no_effect, "the adapter changes nothing"),
    "NaN": (spoilt(lora_key(Q0, "A"), with_nan), "not finite"),
    "wrong shape": (spoilt(lora_key(Q0, "B"), lambda b: b[:-1]), "wants [64, 4]"),
}


def refused_for(folder: Path, base: Path, reason: str, printed: pytest.CaptureFixture[str]) -> None:
    """The command ends with 1, and one line of its table fails, with this reason."""
    assert command(["--adapter", str(folder), "--base", str(base)]) == 1
    lines = [line for line in printed.readouterr().out.splitlines() if " FAIL " in line]
    assert len(lines) == 1
    assert reason in lines[0]


@pytest.mark.parametrize(("apply", "reason"), IN_THE_FOLDER.values(), ids=IN_THE_FOLDER)
def test_broken_folders(
    apply: Callable[[Path], object],
    reason: str,
    project: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = write_adapter(project / "foreign", project / "base")
    apply(folder)
    refused_for(folder, project / "base", reason, capsys)


@pytest.mark.parametrize(("apply", "reason"), IN_THE_TENSORS.values(), ids=IN_THE_TENSORS)
def test_broken_tensors(
    apply: Callable[[Tensors], None],
    reason: str,
    project: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tensors = lora_tensors(project / "base", 4)
    apply(tensors)
    folder = write_adapter(project / "foreign", project / "base", tensors=tensors)
    refused_for(folder, project / "base", reason, capsys)


def test_rank_65_and_an_unknown_key(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = project / "base"
    refused_for(write_adapter(project / "a", base, rank=65), base, "65 (limit 64)", capsys)
    unknown = write_adapter(project / "b", base, lora_magic=7)
    refused_for(unknown, base, "does not know 'lora_magic' = 7", capsys)
