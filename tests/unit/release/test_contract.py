from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.adapter_format import CONFIG_FILE, WEIGHTS_FILE
from pipeline.base.artifacts import sha256_file, write_json
from pipeline.base.fingerprint import HashCache, fingerprint
from pipeline.release.case import Case
from pipeline.release.contract import STATIC_RULES, faults, judge, table, verify_adapter
from tests.support.adapters import lora_tensors, write_adapter
from tests.support.settings import make_params
from tests.unit.release.breaking import (
    LIMITS,
    checks_of,
    in_config,
    only_fault,
    spoil,
)


def test_a_sound_adapter_passes_every_check(base: Path, tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "adapter", base)
    checks = checks_of(folder, base)
    assert {c.id for c in checks.values() if c.status == "not applicable"} == {
        "run-summary",
        "base",
    }
    assert not faults(list(checks.values()))
    assert checks["scale"].figure == 2.0
    assert checks["rank-limit"].figure == 4
    assert checks["elements"].figure == sum(v.size for v in lora_tensors(base, 4).values())
    assert checks["tensor-type"].figure == "F32"
    assert checks["not-zero"].figure == 4


def test_independent_faults_are_both_named(base: Path, tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "adapter", base)
    spoil(float("nan"))(folder, base)
    in_config(lora_magic=1)(folder, base)
    checks = checks_of(folder, base)
    assert [c.id for c in checks.values() if c.passed is False] == ["config-keys", "finite"]
    assert checks["tensor-modules"].status == "not reached"
    assert checks["tensor-modules"].detail == "after config-keys"
    assert checks["tensor-modules"].passed is None


def test_limits_are_those_of_the_settings(base: Path, tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "adapter", base)
    few = make_params(**{"verify.max_elements": 100}).verify
    failed = faults(judge(Case(folder, base, few), STATIC_RULES))
    assert [(check.id, check.limit) for check in failed] == [("elements", 100)]
    small = make_params(**{"verify.max_gib": 1e-6}).verify
    checks = judge(Case(folder, base, small), STATIC_RULES)
    assert [check.id for check in faults(checks)] == ["size"]
    assert {c.id: c.detail for c in checks}["tensor-file"] == "after size"


def test_the_base_must_be_the_one_trained_on(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write_adapter(tmp_path / "adapter", base)
    seen = fingerprint(base, HashCache(tmp_path / "hashes.json"))["fingerprint"]
    assert checks_of(folder, base, trained_on={"base.json": seen})["base"].passed
    fault = only_fault(folder, base, trained_on={"base.json": seen, "train.json": "0" * 64})
    assert fault.id == "base"
    assert "train.json" in fault.detail


def _summary(folder: Path, **changes: Any) -> dict[str, Any]:
    files = {name: sha256_file(folder / name) for name in (CONFIG_FILE, WEIGHTS_FILE)}
    return {
        "schema_version": 1, "status": "complete", "method_name": "lora", "devices": ["cpu"],
        "total_elapsed_seconds": 1.5, "checkpoint_path": "adapter", "run_key": "k", "step": 2,
        "steps_planned": 2, "ended_by": "steps", "base_fingerprint": "f", "attempts": 1,
        "contract": "passed", "adapter": {"files": files}, "updated_unix": 1.0, **changes,
    }  # fmt: skip


def test_a_summary_beside_a_published_adapter_is_judged(base: Path, tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "adapter", base)
    assert only_fault(folder, base, summary_required=True).id == "run-summary"
    write_json(tmp_path / "run_summary.json", _summary(folder))
    assert checks_of(folder, base)["run-summary"].figure == "complete"
    gone = _summary(folder, checkpoint_path="runs/gone", status="partial")
    write_json(tmp_path / "run_summary.json", gone)
    assert "does not exist" in only_fault(folder, base).detail
    write_json(tmp_path / "run_summary.json", gone | {"status": "complete"})  # `make clean`
    assert checks_of(folder, base)["run-summary"].passed
    write_json(tmp_path / "run_summary.json", _summary(folder, adapter={"files": {}}))
    assert "other adapter files" in only_fault(folder, base).detail
    (tmp_path / "run_summary.json").write_text("{")
    assert "not valid JSON" in only_fault(folder, base).detail
    other = write_adapter(tmp_path / "other", base)
    assert checks_of(other, base)["run-summary"].status == "not applicable"


def test_the_record_and_the_table_say_the_same(base: Path, tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "adapter", base)
    good = verify_adapter(Case(folder, base, LIMITS), loading=False)
    assert good["passed"] is True
    assert good["files"][WEIGHTS_FILE] == sha256_file(folder / WEIGHTS_FILE)
    assert "Contract kept: 24 checks passed" in table(good)
    (folder / "extra").touch()
    bad = verify_adapter(Case(folder, base, LIMITS))
    assert bad["passed"] is False
    text = table(bad)
    assert "FAIL file-set" in text
    assert "--   load" in text
    assert text.endswith("Contract BROKEN: file-set")
    json.dumps(bad, allow_nan=False)


def test_the_static_contract_imports_no_torch() -> None:
    code = (
        "import sys, pipeline.release.contract, pipeline.release.publish, pipeline.release.adapter;"
        "sys.exit(bool({'torch', 'peft', 'transformers'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
