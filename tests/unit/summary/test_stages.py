"""The stages of a curriculum: planned, trained, and the passes over tiers and sources."""

from __future__ import annotations

from dataclasses import replace

from pipeline.summary.evidence import Evidence
from pipeline.summary.stages import stages_section
from tests.support.finished_run import STAGE_ROWS, with_stages


def rows_of(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(("| 1", "| 2", "| tier", "| source"))]


def test_stages_and_passes_as_planned_and_as_trained(evidence: Evidence) -> None:
    assert rows_of(stages_section(with_stages(evidence))) == [
        "| 1 | 4 × 256 tokens | easy 75 %, hard 25 % | 25.0 % | 40 | 38 | 37,000 | 2.250 → 1.500 |",
        "| 2 | 2 × 512 tokens | as they come | 75.0 % | 120 | 112 | 111,000 | 1.400 → 0.250 |",
        "| tier | `easy` | 1.60 | 1.50 |",
        "| tier | `hard` | 1.00 | 0.90 |",
        "| source | `sums.jsonl` | 1.20 | 1.10 |",
    ]


def test_a_run_that_did_not_end_has_its_plan(evidence: Evidence) -> None:
    lines = rows_of(stages_section(replace(with_stages(evidence), train=None)))
    assert lines[1] == "| 2 | 2 × 512 tokens | as they come | 75.0 % | 120 | did not end |  |  |"
    assert len(lines) == 2


def test_a_stage_without_steps_has_no_loss(evidence: Evidence) -> None:
    whole = with_stages(evidence)
    record = whole.train["curriculum"]
    done = [{**record["stages"][0], "first_loss": None, "last_loss": None}, record["stages"][1]]
    train = {**whole.train, "curriculum": {**record, "stages": done}}
    assert rows_of(stages_section(replace(whole, train=train)))[0].endswith("| 37,000 | – |")


def test_one_plain_stage_has_no_table_but_one_of_tiers_has(evidence: Evidence) -> None:
    assert stages_section(evidence) == []
    plain = {**evidence.plan, "training": {"stages": STAGE_ROWS[1:]}}
    assert stages_section(replace(evidence, plan=plain)) == []
    tiers = {**evidence.plan, "training": {"stages": STAGE_ROWS[:1]}}
    assert len(rows_of(stages_section(replace(evidence, plan=tiers)))) == 1
