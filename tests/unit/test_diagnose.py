"""The diagnose command: what it reads, writes, prints and refuses; the line of a failed run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipeline.diagnose import main
from pipeline.hardware.doctor.codes import CODES
from pipeline.hardware.doctor.failure import failure_line
from tests.support.broken_run import healthy, write_run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def result() -> dict[str, object]:
    tree = json.loads(Path("work/diagnose.json").read_text())
    assert isinstance(tree, dict)
    return tree


def test_a_run_of_ours(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(here, train={"warmup_share": 0.8})
    assert main(["runs/0123"]) == 0
    tree = result()
    assert (tree["schema_version"], tree["verdict"]) == (1, "fault")
    assert tree["fix"] == {"train.warmup_share": 0.05}
    page = Path("work/diagnose.md").read_text()
    assert page.startswith("# Diagnosis: fault\n")
    assert "Change `train.warmup_share` to `0.05`" in page
    assert re.search(r'`job\.json:\d+: "warmup_share": 0\.8,`', page)
    assert page in capsys.readouterr().out


def test_config_profile_and_log_together(here: Path) -> None:
    Path("c.yaml").write_text("per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\n")
    Path("p.json").write_text('{"num_parameters": 1000000, "gpu_memory_gib": 24}')
    Path("t.log").write_text(
        'Traceback (most recent call last):\n  File "a", line 1, in b\n    loss.backward()\n'
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    )
    out = here / "there" / "x.json"
    arguments = ["--config", "c.yaml", "--profile", "p.json", "--log", "t.log", "--out", str(out)]
    assert main(arguments) == 0
    tree = json.loads(out.read_text())
    (only,) = tree["diagnoses"]
    assert only["code"] == "oom_step"
    assert only["evidence"][0].startswith("t.log:4: RuntimeError")
    assert tree["fix"] == {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    assert tree["intermediates"]["effective_batch"]["value"] == 8
    assert tree["intermediates"]["gpu_gib"]["value"] == 24


def test_a_remedy_where_no_field_cures(here: Path) -> None:
    Path("t.log").write_text("OSError: [Errno 28] No space left on device\n")
    assert main(["t.log"]) == 0
    assert CODES["disk_full"].remedy in Path("work/diagnose.md").read_text()


def test_a_folder_of_another_trainer(here: Path) -> None:
    for step in (10, 20):
        folder = here / f"out/checkpoint-{step}"
        folder.mkdir(parents=True)
        rows = [{"step": s, "loss": 3.0 / s, "epoch": s / 20} for s in range(1, step + 1)]
        about = {"global_step": step, "max_steps": 25, "epoch": step / 20, "log_history": rows}
        (folder / "trainer_state.json").write_text(json.dumps(about, indent=1))
    (here / "out/run.log").write_text("OSError: No space left on device\n")
    assert main(["out"]) == 0
    tree = result()
    assert tree["read"] == ["trainer_state.json", "text log"]
    assert tree["intermediates"]["last_loss"]["how"] == "step 20"  # type: ignore[index]
    assert "disk_full" in json.dumps(tree["diagnoses"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no run to diagnose"),
        (["empty"], "empty: no job.json"),
        (["--log", "missing.log"], "missing.log: cannot be read"),
        (["damaged"], "job.json: damaged"),
        (["t.log", "--out", "empty"], "empty: cannot be written"),
    ],
)
def test_what_cannot_be_read_or_written(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (here / "empty").mkdir()
    (here / "damaged").mkdir()
    (here / "damaged/job.json").write_text('{"training": 3}')
    Path("t.log").write_text("x\n")
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_files_that_are_gone_or_torn(here: Path) -> None:
    run = write_run(here, files={"checkpoint-000040/state.json": "[1"})
    (here / "work/tokenize/trained.npy").write_bytes(b"torn")
    (here / "base/config.json").write_text("{")
    (run / "steps.jsonl").write_text(json.dumps(healthy()[0]) + '\n{"step": 2, "lo')
    assert main(["runs/0123"]) == 0
    assert result()["verdict"] == "unknown"
    (here / "work/tokenize/manifest.json").unlink()
    assert main(["runs/0123"]) == 0


def test_the_line_of_a_failed_run(here: Path) -> None:
    run = write_run(here, files={"error-0.txt": "IndexError: index out of range in self\n"})
    line = failure_line(run, "the training processes ended with [1]")
    assert line.startswith("diagnosis: token_out_of_range: a token id beyond")
    assert "(error-0.txt:1: IndexError" in line
    assert CODES["token_out_of_range"].remedy.rstrip(".") in line
    assert line.endswith(f"More: make diagnose RUN={run}")
    assert "\n" not in line


def test_the_line_names_the_field_to_change(here: Path) -> None:
    said = "the loss or a gradient became infinite or not a number"
    run = write_run(here)
    assert 'change {"train.learning_rate": 0.0005}' in failure_line(run, said)
    # Who asks later hears the same.
    assert main([str(run)]) == 0
    assert result()["fix"] == {"train.learning_rate": 0.0005}


def test_the_line_of_a_run_that_tells_nothing(here: Path) -> None:
    assert "diagnosis: unknown; the files" in failure_line(write_run(here, rows=[]), "ended")
    assert failure_line(here / "nowhere", "ended").startswith("diagnosis: unknown; ")


def test_the_documentation_lists_every_code() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \| (.+?) \| (.+?) \|$",
        (ROOT / "docs/diagnosis.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert rows == [(name, c.grade, c.meaning, c.remedy) for name, c in CODES.items()]
