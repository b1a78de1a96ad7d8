from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.release import load_rule
from pipeline.release.case import Broken
from pipeline.release.load_rule import child_environment, contract_python, judge, run_child

REPORT: dict[str, Any] = {
    "tensors": 8,
    "missing": [],
    "unexpected": [],
    "different": [],
    "scales": [2.0],
    "finite_logits": True,
    "largest_logit_change": 0.25,
    "repeatable": True,
    "base_unchanged": True,
    "placement": {"device": "cpu", "dtype": "float32", "quantization": "none"},
    "versions": {"peft": "0.9.0", "transformers": "4.57.6", "torch": "2.13.0"},
}


def test_a_good_report() -> None:
    finding = judge(REPORT, [2.0])
    assert finding.figure == 0.25
    assert "8 tensors" in finding.detail
    assert "float32 on cpu" in finding.detail


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"missing": ["k_proj", "x"]}, "2 missing tensors after loading: 'k_proj'"),
        ({"unexpected": ["blocks"]}, "1 unexpected"),
        ({"different": ["q"]}, "1 different"),
        ({"scales": [1.0]}, r"scales by \[1.0\]"),
        ({"finite_logits": False, "largest_logit_change": None}, "not finite"),
        ({"largest_logit_change": 0.0}, "does not change the logits"),
        ({"repeatable": False}, "second time"),
        ({"base_unchanged": False}, "switched off"),
        ({"versions": {"peft": "0.21.2"}}, r"peft 0\.21\.2, not 0\.9\.0"),
    ],
)
def test_each_thing_in_a_report_can_break_it(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(Broken, match=reason):
        judge({**REPORT, **change}, [2.0])


def test_which_interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(load_rule, "version", lambda name: "0.9.0")
    assert contract_python({}) == sys.executable
    assert contract_python({"TRACEBOX_CONTRACT_PYTHON": "/bin/sh"}) == "/bin/sh"
    with pytest.raises(Broken, match="TRACEBOX_CONTRACT_PYTHON=/no/python"):
        contract_python({"TRACEBOX_CONTRACT_PYTHON": "/no/python"})
    monkeypatch.setattr(load_rule, "version", lambda name: "0.21.2")
    monkeypatch.setattr(load_rule, "CONTRACT_PYTHON", tmp_path / "python")
    with pytest.raises(Broken, match=r"has 0\.21\.2; run `make contract-env`"):
        contract_python({})
    (tmp_path / "python").symlink_to("/bin/sh")
    assert contract_python({}) == str(tmp_path / "python")


def test_the_child_sees_no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    environment = child_environment("/other/python", "/empty")
    assert "HF_TOKEN" not in environment
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["HOME"] == environment["HF_HOME"] == "/empty"
    assert "/somewhere" not in environment["PYTHONPATH"]
    assert "/somewhere" in child_environment(sys.executable, "/empty")["PYTHONPATH"]


def _script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_last_words_of_a_failed_child_are_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = _script(tmp_path / "python", "echo noise >&2; echo 'ValueError: why' >&2; exit 3")
    monkeypatch.setenv("TRACEBOX_CONTRACT_PYTHON", program)
    with pytest.raises(Broken, match=r"\(exit code 3\): ValueError: why"):
        run_child(tmp_path, tmp_path)


def test_a_child_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = _script(tmp_path / "python", f"echo $$ > {tmp_path}/pid; exec sleep 30")
    monkeypatch.setenv("TRACEBOX_CONTRACT_PYTHON", program)
    with pytest.raises(Broken, match=r"more than 0\.5 s"):
        run_child(tmp_path, tmp_path, timeout=0.5)
    pid = (tmp_path / "pid").read_text().strip()
    assert subprocess.run(["kill", "-0", pid], check=False, stderr=-3).returncode != 0


def test_the_report_is_the_last_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = _script(tmp_path / "python", """echo warning; echo "{\\"cwd\\": \\"$PWD\\"}" """)
    monkeypatch.setenv("TRACEBOX_CONTRACT_PYTHON", program)
    report = run_child(tmp_path, tmp_path)
    assert "tracebox-contract-" in report["cwd"]
    assert not Path(report["cwd"]).exists()
