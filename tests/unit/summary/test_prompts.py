"""A row for every prompt; the headline and all that is compared stay with `main`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline.summary.comparison import headline, paired, samples_section
from pipeline.summary.evidence import Evidence
from pipeline.summary.prompts import prompts_section
from tests.support.finished_run import MANIFEST, sample, scores


def asked(number: int, right: int, **changes: Any) -> dict[str, Any]:
    """scores.json of ten problems, with the variants `bare` and `late`."""
    whole = {"requested_problems": 10, "ended_by": "complete"}
    late = {**scores("", 0, []), "problems": 0, "pass_at_1": None, "requested_problems": 10}
    bare = {**scores("", number, [0.1, 0.4]), **whole, **changes}
    return {**scores("", right, [0.2, 0.8]), **whole, "variants": {"bare": bare, "late": late}}


@pytest.fixture
def varied(evidence: Evidence) -> Evidence:
    """The finished run, asked under three prompts; `bare` lost a problem that it had."""
    return replace(
        evidence,
        manifest={**MANIFEST, "variants": {"main": 1000, "bare": 600, "late": 400}},
        baseline=asked(1, 3),
        evaluate=asked(2, 7, problems=9),
        before=[*evidence.before, *(sample(n, "base", n < 1, "bare") for n in range(10))],
        after=[*evidence.after, *(sample(n, "adapter", n in (1, 2), "bare") for n in range(9))],
    )


def test_a_row_for_every_prompt_with_interval_share_and_size(varied: Evidence) -> None:
    rows = [line for line in prompts_section(varied) if line.startswith("| `")]
    assert rows == [
        "| `main` | 50.0 % | 30.0 % (20.0–80.0 %) | 70.0 % (20.0–80.0 %)"
        " | 5 better, 1 worse, 4 equal (p = 0.219) | 10 |",
        "| `bare` | 30.0 % | 10.0 % (10.0–40.0 %) | 20.0 % (10.0–40.0 %)"
        " | 2 better, 1 worse, 6 equal (p = 1.000) | 10 and 9 of 10 |",
        "| `late` | 20.0 % | not measured | not measured | – | 0 of 10 |",
    ]


def test_headline_and_replies_are_those_of_main(varied: Evidence, evidence: Evidence) -> None:
    assert "10 problems × 1 reply, prompt `main`" in headline(varied)[0]
    assert "better on 5, worse on 1, equal on 4" in headline(varied)[2]
    assert samples_section(varied) == samples_section(evidence)
    assert "prompt" not in headline(evidence)[0]


def test_replies_under_two_prompts_are_never_paired(varied: Evidence) -> None:
    found = paired(varied.before, varied.after)
    assert found is not None
    assert found.better + found.worse + found.same == 10
    assert paired(varied.before, varied.after, "unheard") is None


def test_a_run_without_variants_has_no_table(evidence: Evidence) -> None:
    assert prompts_section(evidence) == []
    assert prompts_section(replace(evidence, baseline=None, evaluate=None)) == []


def test_where_nothing_differs_there_is_no_test(varied: Evidence) -> None:
    same = prompts_section(replace(varied, after=varied.before))
    assert any("| equal on all 10 | 10 |" in line for line in same)


def test_a_cut_run_says_what_did_not_run(varied: Evidence) -> None:
    rows = [
        line
        for line in prompts_section(replace(varied, evaluate=None, manifest=None, after=[]))
        if line.startswith("| `bare`")
    ]
    assert rows == ["| `bare` | not recorded | 10.0 % (10.0–40.0 %) | not run | – | 10 |"]
