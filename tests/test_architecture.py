"""The rules of the house: who imports whom, how large, how typed, and no left-overs."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.closure import ROOT, imported, parsed

PIPELINE = ROOT / "pipeline"
FILES = sorted(PIPELINE.rglob("*.py"))
ROOMS = {
    "corpus", "embedded", "hardware", "learning", "measurement", "packing", "release", "summary",
}  # fmt: skip
LIGHT_STAGES = [
    "params", "prepare", "probe", "filter", "semantic", "decontaminate", "plan", "select",
    "tokenize", "train", "report", "blend", "clock", "configure", "diagnose", "gym", "inspect",
    "publish",
]  # fmt: skip
HEAVY = {"torch", "transformers", "peft", "datasets"}
DISTRIBUTIONS = {"huggingface_hub": "huggingface-hub", "ruamel": "ruamel-yaml"}
"""Import name → distribution, where they differ."""
NOT_IMPORTED = {
    "dvc",  # run as a command
}
"""Dependencies that no line of ours imports."""
TOOLS = [ROOT / f"requirements/{name}.py" for name in ("environment", "lock", "bundle")]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def room_of(module: str) -> str | None:
    """`pipeline.corpus.x` → corpus; None for stages and for what is not ours."""
    parts = module.split(".")
    return parts[1] if parts[0] == "pipeline" and parts[1:2] and parts[1] in ROOMS else None


def functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef)]


def test_rooms_are_the_folders() -> None:
    folders = {path.name for path in PIPELINE.iterdir() if path.is_dir()}
    assert folders - {"__pycache__", "base"} == ROOMS


@pytest.mark.parametrize("path", FILES, ids=named)
def test_imports_keep_to_the_rules(path: Path) -> None:
    ours = {name for name in imported(path) if name.split(".")[0] == "pipeline"}
    ours = {".".join(name.split(".")[:2]) for name in ours} - {"pipeline"}
    home = path.relative_to(PIPELINE).parts[0]
    allowed = {"pipeline.base"}
    if home in ROOMS:
        allowed.add(f"pipeline.{home}")
    elif home != "base":
        allowed |= {f"pipeline.{room}" for room in ROOMS}
    assert ours <= allowed


@pytest.mark.parametrize("path", [*FILES, *TOOLS], ids=named)
def test_sizes(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300
    lengths = {f.name: (f.end_lineno or 0) - f.lineno + 1 for f in functions(path)}
    assert {name: length for name, length in lengths.items() if length > 60} == {}


def test_typical_sizes() -> None:
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in FILES]
    lengths = [(f.end_lineno or 0) - f.lineno + 1 for path in FILES for f in functions(path)]
    assert statistics.median(lines) <= 150
    assert statistics.median(lengths) <= 10


@pytest.mark.parametrize("path", [*FILES, *TOOLS], ids=named)
def test_module_says_what_it_is(path: Path) -> None:
    text = ast.get_docstring(parsed(path))
    assert text is not None
    assert len(text) > 40


@pytest.mark.parametrize("path", [*FILES, *TOOLS], ids=named)
def test_nothing_is_left_over(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError", text)
    assert not re.search(r"^\s*(\.\.\.|breakpoint\(\))\s*$", text, re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=named)
def test_only_the_runner_catches_everything(path: Path) -> None:
    broad = [
        node.lineno
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
    ]
    assert len(broad) == (1 if path == PIPELINE / "base/stage.py" else 0)


def test_no_process_is_ended_by_name() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in [*FILES, ROOT / "train.sh"]}
    assert [named(path) for path, text in texts.items() if re.search(r"pkill|killall", text)] == []


def test_light_stages_leave_heavy_libraries_alone() -> None:
    modules = [f"pipeline.{'base.params' if s == 'params' else s}" for s in LIGHT_STAGES]
    program = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
        f"    found = {HEAVY!r} & set(sys.modules)\n"
        "    if found: sys.exit(f'{name} imports {sorted(found)}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_dependencies_are_what_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[^a-z0-9.-]", line)[0] for line in project["dependencies"]]
    declared = {name.replace(".", "-") for name in names}
    tops = {name.split(".")[0] for path in FILES for name in imported(path)}
    foreign = tops - set(sys.stdlib_module_names) - {"pipeline"}
    assert {DISTRIBUTIONS.get(name, name) for name in foreign} == declared - NOT_IMPORTED


@pytest.mark.parametrize(
    "name", ["contract", "newest", "dev", "vocabularies", "embedded", "semantic"]
)
def test_locks_pin_releases_that_any_machine_can_install(name: str) -> None:
    lines = (ROOT / f"requirements/{name}.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert pins
    assert [line for line in pins if not re.fullmatch(r"[a-z0-9-]+==[a-z0-9.]+", line)] == []
    assert [line for line in pins if line.startswith(("nvidia", "triton"))] == []


def test_contract_lock_holds_the_versions_of_the_contract() -> None:
    pins = (ROOT / "requirements/contract.lock").read_text(encoding="utf-8").splitlines()
    assert {"torch==2.13.0", "transformers==4.57.6", "peft==0.9.0"} <= set(pins)
