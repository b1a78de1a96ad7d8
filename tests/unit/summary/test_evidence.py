"""Evidence is read whole or refused; only a cut run may miss files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.base.artifacts import write_json
from pipeline.base.errors import UserError
from pipeline.summary.evidence import STAGE_FILES, collect
from tests.support.finished_run import HASH, write_finished_run


def test_all_files_of_a_finished_run_are_read(tmp_path: Path) -> None:
    write_finished_run(tmp_path)
    found = collect(tmp_path)
    assert found.missing() == []
    assert len(found.steps) == 160
    assert found.steps[0][0] == 1
    assert len(found.before) == len(found.after) == len(found.problems) == 10
    assert found.stage_seconds == {"filter": 4.0, "train": 310.2}


@pytest.mark.parametrize("name", sorted(STAGE_FILES))
def test_a_stage_that_has_not_run_is_named_or_none(tmp_path: Path, name: str) -> None:
    write_finished_run(tmp_path)
    (tmp_path / STAGE_FILES[name]).unlink()
    with pytest.raises(UserError, match=rf"{STAGE_FILES[name]}: file not found"):
        collect(tmp_path)
    found = collect(tmp_path, partial=True)
    assert getattr(found, name) is None
    assert found.missing() == [STAGE_FILES[name]]


def test_broken_file_is_refused_even_in_a_cut_run(tmp_path: Path) -> None:
    (tmp_path / "work/plan").mkdir(parents=True)
    (tmp_path / "work/plan/plan.json").write_text("{")
    with pytest.raises(UserError, match=r"plan\.json: not valid JSON"):
        collect(tmp_path, partial=True)


def test_nothing_at_all_is_evidence_of_nothing(tmp_path: Path) -> None:
    found = collect(tmp_path, partial=True)
    assert found.missing() == list(STAGE_FILES.values())
    assert (found.steps, found.before, found.problems, found.clock) == ([], [], {}, None)


def test_bad_line_of_the_steps_is_named(tmp_path: Path) -> None:
    write_finished_run(tmp_path)
    (tmp_path / "work/train/steps.csv").write_text("step,loss\n1,2.0\n2,much\n")
    with pytest.raises(UserError, match=r"steps\.csv:3: no step and loss"):
        collect(tmp_path)


def test_log_of_a_training_that_was_cut_is_read_up_to_its_torn_line(tmp_path: Path) -> None:
    write_json(tmp_path / "run_summary.json", {"run_key": HASH[:16]})
    log = tmp_path / "runs" / HASH[:16] / "steps.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(
        '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5}\n{"step": 2, "loss": 1.4}\n{"step": 3'
    )
    assert collect(tmp_path, partial=True).steps == [(1.0, 2.0), (2.0, 1.4)]
