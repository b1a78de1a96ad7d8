"""train.sh around a pipeline that fails, hangs, or is stopped: it always publishes.

The project here is real but for the stages: one stub stage, and a publisher and a
report that write down how they were called.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.base.budget import DEADLINE_VARIABLE
from tests.support.closure import ROOT

STUB = """
import os, signal, sys, time
from pathlib import Path
from pipeline.base.lock import hold
lock = hold(Path("runs/stage.lock"), "a stage")
def stop(number, frame):
    print("stub: saving", flush=True)
    time.sleep(1.5)
    Path("runs/saved").write_text("x")
    sys.exit(130)
signal.signal(signal.SIGTERM, stop)
print("stub: started", os.environ["HF_HUB_OFFLINE"], flush=True)
assert float(os.environ["TRACEBOX_DEADLINE_UNIX"]) > time.time()
time.sleep(float(Path("seconds").read_text()))
if Path("fail").exists(): sys.exit(3)
Path("out.txt").write_text("done")
"""
RECORDER = """
import sys
from pathlib import Path
name = Path(__file__).stem
saved = Path("runs/saved").exists()
with open("runs/called", "a") as stream:
    print(name, *sys.argv[1:], "saved" if saved else "", file=stream)
"""
DVC_YAML = (
    "stages:\n  stub:\n    cmd: python -m pipeline.stub\n    deps: [seconds]\n    outs: [out.txt]\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    (folder / "pipeline").mkdir(parents=True)
    shutil.copytree(ROOT / "pipeline/base", folder / "pipeline/base")
    for name in ("clock", "configure", "unlock"):
        shutil.copy(ROOT / f"pipeline/{name}.py", folder / "pipeline")
    (folder / "pipeline/__init__.py").write_text("")
    (folder / "pipeline/stub.py").write_text(STUB)
    for name in ("publish", "report"):
        (folder / f"pipeline/{name}.py").write_text(RECORDER)
    (folder / "requirements").mkdir()
    shutil.copy(ROOT / "requirements/environment.py", folder / "requirements")
    shutil.copytree(ROOT / "presets", folder / "presets")
    shutil.copy(ROOT / "presets/demo.yaml", folder / "params.yaml")
    shutil.copy(ROOT / "train.sh", folder)
    (folder / "dvc.yaml").write_text(DVC_YAML)
    (folder / "seconds").write_text("0")
    return folder


def hear_interrupts() -> None:
    """A test run in the background has them ignored, and bash cannot undo that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(project: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """train.sh from another folder, with this interpreter."""
    environment = {key: value for key, value in os.environ.items() if key != DEADLINE_VARIABLE}
    return subprocess.Popen(
        [str(project / "train.sh"), *arguments],
        cwd="/",
        env=environment | {"PYTHON": sys.executable} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    )


def run(project: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    child = start(project, *arguments, **variables)
    output, _ = child.communicate(timeout=60)
    return child.returncode, output


def wait_for(child: subprocess.Popen[str], text: str) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        if text in line:
            return
    pytest.fail(f"ended without {text!r}")


def called(project: Path) -> list[str]:
    return [line.strip() for line in (project / "runs/called").read_text().splitlines()]


@pytest.fixture
def sleeping(project: Path) -> Iterator[subprocess.Popen[str]]:
    """A run whose stage has just begun something long."""
    (project / "seconds").write_text("60")
    child = start(project)
    wait_for(child, "stub: started 1")
    yield child
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def test_it_runs_anywhere_without_git_and_publishes(project: Path) -> None:
    code, output = run(project)
    assert code == 0, output
    assert (project / "out.txt").read_text() == "done"
    assert called(project) == ["publish"]
    assert (project / ".dvc/config.local").read_text().count("no_scm = true") == 1
    code, output = run(project)
    assert code == 0, output
    assert "stub: started" not in output  # nothing changed, so nothing ran


def test_a_failing_stage_is_published_and_passed_on(project: Path) -> None:
    (project / "fail").touch()
    code, output = run(project)
    assert code != 0
    assert "exited with 3" in output
    assert called(project) == ["publish --unfinished", "report --partial"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_the_stage_and_waits_for_it(
    project: Path, sleeping: subprocess.Popen[str], number: signal.Signals
) -> None:
    began = time.monotonic()
    sleeping.send_signal(number)
    output, _ = sleeping.communicate(timeout=30)
    assert sleeping.returncode != 0
    assert "stub: saving" in output
    assert called(project) == ["publish --unfinished saved", "report --partial saved"]
    assert time.monotonic() - began < 20


def test_a_signal_to_the_whole_group_waits_for_the_stage_too(
    project: Path, sleeping: subprocess.Popen[str]
) -> None:
    os.killpg(sleeping.pid, signal.SIGTERM)  # as a batch system does; DVC dies at once
    sleeping.communicate(timeout=30)
    assert sleeping.returncode not in (0, None)
    assert called(project) == ["publish --unfinished saved", "report --partial saved"]


def test_a_stage_that_outlived_its_run_is_not_joined_by_a_second(
    project: Path, sleeping: subprocess.Popen[str]
) -> None:
    stage = int((project / "runs/stage.lock").read_text())
    for pid in (sleeping.pid, int(Path(f"/proc/{stage}/stat").read_text().split()[3])):
        os.kill(pid, signal.SIGKILL)
    code, output = run(project)
    assert code != 0
    assert f"a stage is already running (pid {stage})" in output
    os.kill(stage, signal.SIGKILL)


def test_a_second_run_beside_the_first_is_refused_in_one_line(
    project: Path, sleeping: subprocess.Popen[str]
) -> None:
    code, output = run(project)
    assert code == 2
    assert output.count("\n") == 1
    assert f"another run is at work in {project}: process {sleeping.pid}" in output
    sleeping.send_signal(signal.SIGTERM)
    sleeping.communicate(timeout=30)
    (project / "seconds").write_text("0")
    assert run(project)[0] == 0


def test_a_used_up_budget_publishes_what_there_is(project: Path) -> None:
    params = project / "params.yaml"
    params.write_text(params.read_text().replace("hours: 1.0", "hours: 0.000001"))
    code, output = run(project)
    assert code == 1
    assert "the budget is used up" in output
    assert "stub: started" not in output
    assert called(project) == ["publish --unfinished", "report --partial"]


def test_inputs_given_on_the_command_line_reach_params(project: Path) -> None:
    base, data = project / "presets", project / "params.yaml"
    code, output = run(project, BASE=str(base.relative_to("/")), DATA=str(data))
    assert code == 0, output
    text = (project / "params.yaml").read_text()
    assert f"path: {base}" in text  # from the caller's folder, here /
    assert f"sources: [{data}]" in text


def test_wrong_params_stop_it_before_anything_runs(project: Path) -> None:
    params = project / "params.yaml"
    params.write_text(params.read_text().replace("rank: 16", "rank: many"))
    code, output = run(project)
    assert code == 2
    assert "`train.rank` = 'many'" in output
    assert not (project / "runs/called").exists()


def test_up_to_one_stage_publishes_nothing_as_finished(project: Path) -> None:
    code, output = run(project, "stub")
    assert code == 0, output
    assert not (project / "runs/called").exists()
