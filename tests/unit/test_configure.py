"""params.yaml is changed key by key, and never over somebody's own edits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipeline import configure
from pipeline.base.params import load_params
from pipeline.configure import JOB_PRESETS, gpu_memories, job_preset, main
from tests.support.closure import ROOT

PARAMS = Path("params.yaml")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project as shipped, as the current folder; no GPU."""
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "presets", folder / "presets")
    shutil.copy(ROOT / "presets/demo.yaml", folder / "params.yaml")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(tmp_path))
    return folder


def test_a_preset_replaces_params_as_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--preset", "quick"]) == 0
    assert PARAMS.read_bytes() == Path("presets/quick.yaml").read_bytes()
    assert capsys.readouterr().out == "configure: params.yaml is now presets/quick.yaml\n"
    assert main(["--preset", "demo"]) == 0


def test_an_unknown_preset_lists_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    before = PARAMS.read_bytes()
    for name in ("nope", ""):
        assert main(["--preset", name]) == 2
        err = capsys.readouterr().err
        assert "unknown preset. Choose one of: " in err
        assert "demo, " in err
    assert PARAMS.read_bytes() == before


def test_edits_are_not_overwritten_without_force(capsys: pytest.CaptureFixture[str]) -> None:
    PARAMS.write_text(PARAMS.read_text().replace("rank: 16", "rank: 8"))
    assert main(["--preset", "quick"]) == 2
    assert "PRESET=quick FORCE=1" in capsys.readouterr().err
    assert load_params(PARAMS).train.rank == 8
    assert main(["--preset", "quick", "--force"]) == 0
    assert PARAMS.read_bytes() == Path("presets/quick.yaml").read_bytes()


def test_a_broken_params_file_counts_as_edited() -> None:
    PARAMS.write_text("budget: [")
    assert main(["--preset", "quick"]) == 2
    assert PARAMS.read_text() == "budget: ["


def test_comments_alone_are_no_edit() -> None:
    PARAMS.write_text("# mine\n" + PARAMS.read_text())
    assert main(["--preset", "quick"]) == 0


def test_an_override_changes_its_line_alone(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = PARAMS.read_text().splitlines()
    model = project / "sub/model"
    model.mkdir(parents=True)
    (project / "sub/traces.jsonl").write_text("{}\n")
    options = ["--base", "model", "--data", "traces.jsonl", "--panel", "holdout"]
    assert main(["--auto", *options, "--caller", str(project / "sub")]) == 0
    after = PARAMS.read_text().splitlines()
    differing = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(differing) == 3
    assert all(old.partition("#")[2] == new.partition("#")[2] for old, new in differing)
    params = load_params(PARAMS)
    assert params.base.path == str(model)
    assert params.data.sources == [str(project / "sub/traces.jsonl")]
    assert params.data.panel == "holdout"
    assert f"base.path: embedded -> {model}" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--base", "--data", "--panel"])
def test_a_path_that_is_not_there_changes_nothing(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = PARAMS.read_bytes()
    assert main(["--auto", option, "nope"]) == 2
    told = capsys.readouterr().err
    assert f"{option[2:].upper()}=nope: no such file or folder" in told
    assert PARAMS.read_bytes() == before


def test_a_data_set_of_the_hub_is_no_path() -> None:
    name = "hub:someone/traces@" + "0" * 40
    assert main(["--data", name]) == 0
    assert load_params(PARAMS).data.sources == [name]


def test_the_same_override_again_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--base", "presets"])
    before = PARAMS.stat().st_mtime_ns
    capsys.readouterr()
    assert main(["--base", "presets"]) == 0
    assert PARAMS.stat().st_mtime_ns == before
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("path", sorted((ROOT / "presets").glob("*.yaml")), ids=lambda p: p.stem)
def test_any_preset_keeps_its_lines_through_an_override(path: Path) -> None:
    shutil.copy(path, PARAMS)
    assert main(["--data", "presets/*.yaml"]) == 0
    pairs = zip(path.read_text().splitlines(), PARAMS.read_text().splitlines(), strict=True)
    assert len([old for old, new in pairs if old != new]) == 1


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that holds the known job's inputs."""
    base, data = tmp_path / "model", tmp_path / "train.jsonl"
    base.mkdir()
    data.write_text("{}\n")
    monkeypatch.setattr(configure, "JOB_BASE", base)
    monkeypatch.setattr(configure, "JOB_DATA", data)
    return data


def test_a_known_job_is_recognised_once(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--auto"]) == 0
    assert "took presets/qwen3-14b-t4x2.yaml" in capsys.readouterr().out
    assert PARAMS.read_bytes() == Path("presets/qwen3-14b-t4x2.yaml").read_bytes()
    assert main(["--auto"]) == 0
    assert capsys.readouterr().out == ""


def test_a_choice_of_the_user_is_left_alone(job: Path) -> None:
    PARAMS.write_text(PARAMS.read_text().replace("rank: 16", "rank: 8"))
    before = PARAMS.read_bytes()
    assert main(["--auto"]) == 0
    assert PARAMS.read_bytes() == before


def test_given_inputs_are_no_known_job(job: Path) -> None:
    assert main(["--auto", "--data", str(job)]) == 0
    assert load_params(PARAMS).base.path == "embedded"


def test_without_the_inputs_nothing_is_taken(job: Path) -> None:
    job.unlink()
    before = PARAMS.read_bytes()
    assert main(["--auto"]) == 0
    assert PARAMS.read_bytes() == before


@pytest.mark.parametrize(
    ("memories", "preset"),
    [
        ([], "qwen3-14b-t4x2"),
        ([14.7, 14.7], "qwen3-14b-t4x2"),
        ([139.8], "qwen3-14b-h200x1"),
        ([79.6] * 2, "qwen3-14b-h200x1"),
        ([79.6] * 8, "qwen3-14b-h100x8"),
        ([79.6, 14.7], "qwen3-14b-t4x2"),
    ],
)
def test_the_preset_follows_the_gpus(memories: list[float], preset: str) -> None:
    assert job_preset(memories, configure.preset_names()) == preset


def test_every_job_preset_is_there() -> None:
    assert {name for name, _, _ in JOB_PRESETS} <= set(configure.preset_names(ROOT / "presets"))
    assert job_preset([], ["demo"]) is None


@pytest.mark.parametrize(
    ("script", "memories"),
    [("echo 15360; echo 15360", [15.0, 15.0]), ("echo none; exit 9", []), ("echo '[N/A]'", [])],
)
def test_gpu_memory_is_asked_of_the_driver(
    tmp_path: Path, script: str, memories: list[float]
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert gpu_memories() == memories
