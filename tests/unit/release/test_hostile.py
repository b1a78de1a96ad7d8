"""Every hostile adapter is refused for its one right reason, every good variant passes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.release.case import Broken
from pipeline.release.file_rules import _refuse_kind
from tests.support.adapters import write_adapter
from tests.support.hostile import ATTACKS, GOOD
from tests.unit.release.breaking import checks_of, only_fault

JUDGE_ALL = """
import json, sys
from pathlib import Path
from pipeline.base.params import load_params
from pipeline.release.case import Case
from pipeline.release.contract import STATIC_RULES, faults, judge
root, base, params = map(Path, sys.argv[1:])
limits = load_params(params).verify
found = {
    folder.name: [c.id for c in faults(judge(Case(folder, base, limits), STATIC_RULES))]
    for folder in sorted(root.iterdir()) if folder.name.isdecimal()
}
heavy = sorted({"torch", "peft", "transformers", "safetensors"} & sys.modules.keys())
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
print(json.dumps({"found": found, "heavy": heavy, "peak_kib": peak}))
"""


def test_there_are_enough_of_them() -> None:
    assert len(ATTACKS) >= 60
    assert len(GOOD) >= 10


@pytest.mark.parametrize("name", ATTACKS)
def test_one_attack_has_one_reason(name: str, base: Path, tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "adapter", base)
    ATTACKS[name].apply(folder)
    fault = only_fault(folder, base)
    assert (fault.id, ATTACKS[name].reason in fault.detail) == (ATTACKS[name].rule, True), fault
    assert len(fault.detail) < 1000
    assert fault.detail.isprintable()


@pytest.mark.parametrize("name", GOOD)
def test_a_good_variant_passes(name: str, base: Path, tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "adapter", base)
    GOOD[name](folder)
    assert [c for c in checks_of(folder, base).values() if c.passed is False] == []


def test_a_device_file_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(Broken, match="not a regular file"):
        _refuse_kind(Path("/dev/null"), False)


def test_all_are_judged_in_one_process_without_torch(base: Path, tmp_path: Path) -> None:
    good = write_adapter(tmp_path / "good", base)
    cases = {**{name: a.apply for name, a in ATTACKS.items()}, **GOOD}
    (tmp_path / "all").mkdir()
    for number, apply in enumerate(cases.values()):
        folder = tmp_path / "all" / f"{number:03d}"
        shutil.copytree(good, folder)
        apply(folder)
    command = [sys.executable, "-c", JUDGE_ALL, tmp_path / "all", base, "params.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    wanted = [*([a.rule] for a in ATTACKS.values()), *([] for _ in GOOD)]
    assert list(report["found"].values()) == wanted
    assert report["heavy"] == []
    assert report["peak_kib"] < 1 << 20
