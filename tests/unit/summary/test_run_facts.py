"""What was run: each figure comes from its record, gaps are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.summary.evidence import Evidence, collect
from pipeline.summary.run_facts import (
    contract_line,
    devices,
    facts_section,
    method,
    millions,
    plan_section,
    time_section,
)
from tests.support.finished_run import CONTRACT
from tests.support.settings import make_params

PARAMS = make_params()


def facts(evidence: Evidence) -> str:
    return "\n".join(facts_section(evidence, PARAMS))


def test_facts_of_a_finished_run(evidence: Evidence) -> None:
    text = facts(evidence)
    assert "| method | lora, rank 16, alpha 32, on all-linear |" in text
    assert "160 steps, 155,900 tokens in 5m02s (2 attempts, resumed)" in text
    assert "| ended by | the planned number of steps, before the clock |" in text
    assert "| time used of the budget | 9m00s of 1h00m (15.0 %) |" in text
    assert "Tiny-Llama: LlamaForCausalLM, 30 layers, 134.5 M parameters" in text


def test_run_that_the_clock_ended_says_so(evidence: Evidence) -> None:
    train = {**evidence.train, "ended_by": "budget", "attempts": 1}
    text = facts(replace(evidence, train=train))
    assert "the clock: the last steps were re-planned" in text
    assert "(in one go)" in text


def test_cut_run_reports_what_was_published(evidence: Evidence) -> None:
    published: dict[str, Any] = {
        "method_name": "rslora", "devices": ["T4", "T4"], "step": 40, "steps_planned": 160,
        "checkpoint_path": "runs/ab/step-40",
    }  # fmt: skip
    text = facts(replace(evidence, train=None, published=published))
    assert "cut: 40 of 160 steps are in the published adapter (from `runs/ab/step-40`)" in text
    assert "| method | rslora |" in text
    assert "| devices | 2 × T4 |" in text


def test_nothing_recorded_nothing_invented(tmp_path: Path) -> None:
    text = facts(collect(tmp_path, partial=True))
    assert "| base | not recorded |" in text
    assert "| training | has not ended |" in text
    assert "| time used of the budget | not recorded of 1h00m |" in text
    assert "| contract | not checked |" in text


def test_equal_devices_are_counted(evidence: Evidence) -> None:
    train = {**evidence.train, "devices": ["H200", "T4", "H200"]}
    assert devices(replace(evidence, train=train)) == "2 × H200, T4"


def test_listed_target_modules(evidence: Evidence) -> None:
    recipe = {**evidence.train["recipe"], "target_modules": ["q_proj", "v_proj"]}
    assert method(replace(evidence, train={**evidence.train, "recipe": recipe})).endswith(
        "on q_proj, v_proj"
    )


def test_broken_contract_names_the_checks() -> None:
    failed = {**CONTRACT["checks"][0], "passed": False, "status": "failed"}  # type: ignore[index]
    broken = {"passed": False, "checks": [failed, *CONTRACT["checks"][1:]]}  # type: ignore[index]
    assert contract_line(broken) == "**broken**: rank"
    assert contract_line(CONTRACT) == "kept: 2 checks passed"


def test_plan_stands_beside_what_happened(evidence: Evidence) -> None:
    lines = plan_section(evidence)
    assert "| tokens/s | 500 | 517 |" in lines
    assert "| training time | 5m28s | 5m02s |" in lines
    assert "| … that the clock allows | 25m00s |  |" in lines
    # what is listed for information only does not count as predicted need
    assert "| memory a device | 0.75 GiB | not recorded |" in lines
    assert "- One CPU: no GPU was found." in lines


def test_plan_of_a_training_that_did_not_end(evidence: Evidence) -> None:
    lines = plan_section(replace(evidence, train=None))
    assert "| tokens/s | 500 | did not end |" in lines
    assert plan_section(replace(evidence, plan=None)) == []


def test_replans_are_counted(evidence: Evidence) -> None:
    train = {**evidence.train, "journal": [{}, {}, {}]}
    text = "\n".join(plan_section(replace(evidence, train=train)))
    assert "re-planned 2 times" in text
    assert "re-planned" not in "\n".join(plan_section(evidence))


def test_stage_times_in_the_order_of_the_flow_with_their_sum(evidence: Evidence) -> None:
    rows = [line for line in time_section(evidence) if line.startswith("|")][2:]
    assert [row.split(" | ")[0] for row in rows] == ["| filter", "| train", "| **all**"]
    assert "**5m14s**" in rows[-1]
    assert rows[0].count("█") == 1
    assert rows[1].count("█") == 24
    assert time_section(replace(evidence, stage_seconds={})) == []


def test_counts_of_parameters() -> None:
    assert (millions(134515008), millions(14768307200)) == ("134.5 M", "14.8 B")
