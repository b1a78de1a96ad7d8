"""The run key: what changes the result changes it, what changes the speed does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.errors import UserError
from pipeline.learning.job import describe, read_job, read_journal, start_journal, write_journal
from pipeline.learning.schedule import Replan
from tests.support.packed import TWO_STAGES, TWO_TIERS, make_job, training_plan, write_packed
from tests.support.settings import make_params


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_packed(tmp_path / "data")


def key(
    data: Path, fingerprint: str = "f", plan: dict[str, Any] | None = None, **train: Any
) -> str:
    params = make_params(**{f"train.{k}": v for k, v in train.items()}).train
    prepared = {"path": "base", "fingerprint": fingerprint}
    return describe(params, prepared, {"training": training_plan(**(plan or {}))}, data).run.name


def test_the_recipe_base_and_data_are_in_the_key(data: Path, tmp_path: Path) -> None:
    keys = {
        key(data),
        key(data, fingerprint="other"),
        key(data, learning_rate=0.5),
        key(data, seed=9),
        key(data, steps=77),
        key(data, plan={"sequences_per_step": 2}),
        key(data, plan={"compute_dtype": "bfloat16"}),
        key(write_packed(tmp_path / "other", sequences=5)),
    }
    assert len(keys) == 8


def test_the_curriculum_is_in_the_key(data: Path) -> None:
    def keyed(**changes: Any) -> str:
        stages = [{**TWO_STAGES[0], **changes}, TWO_STAGES[1]]
        return key(data, plan={"stages": stages})

    keys = {
        key(data),
        keyed(),
        keyed(sequence_tokens=64),
        keyed(share=0.25),
        keyed(tiers=None),
        keyed(tiers={"easy": 1.0}),
    }
    assert len(keys) == 6
    assert keyed(steps=7, tokens=9, micro_batch_sequences=1, accumulation=3) == keyed()


def test_epochs_are_passes_over_the_room_of_all_buckets(tmp_path: Path, data: Path) -> None:
    packed = write_packed(tmp_path / "two", buckets=TWO_TIERS)
    params = make_params(**{"train.steps": None, "train.epochs": 8}).train
    plan = {"training": training_plan(stages=TWO_STAGES)}
    job = describe(params, {"path": "b", "fingerprint": "f"}, plan, packed)
    # (6 + 4) × 32 + (3 + 5) × 64 = 832 tokens of room, 4 × 64 a step.
    assert job.first_total == 8 * 832 // 256
    assert (job.tokens_per_step, job.micro_batch_tokens) == (256, 128)
    assert [stage.sequence_tokens for stage in job.stages] == [32, 64]


def test_data_without_buckets_are_refused(data: Path) -> None:
    manifest = json.loads((data / "manifest.json").read_text())
    del manifest["buckets"]
    (data / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="no buckets") as caught:
        key(data)
    assert "Run tokenize again" in caught.value.remedy


def test_speed_settings_are_not_in_the_key(data: Path) -> None:
    same = {
        key(data),
        key(data, plan={"micro_batch_sequences": 1, "accumulation": 4}),
        key(data, plan={"ranks": 2}),
        key(data, plan={"gradient_checkpointing": True}),
        key(data, plan={"steps_by_clock": 5}),
        key(data, plan={"ranks": 2, "parallel": "sharded"}, parallel="sharded"),
        key(data, keep_checkpoints=7, checkpoint_every_steps=3),
    }
    assert len(same) == 1


def test_steps_come_from_params_else_from_epochs_and_clock(data: Path) -> None:
    def first(steps: int | None, by_clock: int | None) -> tuple[int, int]:
        params = make_params(**{"train.steps": steps, "train.epochs": 3}).train
        plan = {"training": training_plan(steps_by_clock=by_clock)}
        job = describe(params, {"path": "b", "fingerprint": "f"}, plan, data)
        return job.first_total, job.most_steps

    assert first(steps=17, by_clock=2) == (17, 17)
    assert first(steps=None, by_clock=None) == (9, 9)
    assert first(steps=None, by_clock=5) == (5, 9)
    assert first(steps=None, by_clock=500) == (9, 9)


def test_job_and_journal_come_back_from_disk(data: Path, tmp_path: Path) -> None:
    job = make_job(tmp_path / "base", data, make_params())
    assert read_job(job.run) == job
    assert read_journal(job) == [Replan(0, job.first_total, "plan")]
    journal = [Replan(0, 9, "plan"), Replan(4, 6, "budget")]
    write_journal(job, journal)
    assert read_journal(job) == journal


def test_the_first_plan_is_written_down_once(data: Path, tmp_path: Path) -> None:
    params = make_params(**{"train.steps": None, "train.epochs": 3})
    job = make_job(tmp_path / "base", data, params, steps_by_clock=5)
    start_journal(job)
    longer = make_job(tmp_path / "base", data, params, steps_by_clock=9)
    assert longer.run == job.run
    assert longer.first_total == 9
    start_journal(longer)
    assert read_journal(longer) == [Replan(0, 5, "plan")]
