"""From replies to scores.json."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.base.records import Problem, Sample
from pipeline.measurement.scoring import complete_problems, make_sample, summarise

PROBLEM = Problem("p0", "What is 2 + 3?", "$5$", "panel", "panel.jsonl:1")


def sample(name: str, number: int, **changes: Any) -> Sample:
    values: dict[str, Any] = {
        "id": name, "sample": number, "variant": "main", "prompt": "", "reply": "",
        "tokens": 10, "truncated": False, "gold": "5", "answer": "5",
        "correct": True, "reason": "match-exact",
    }  # fmt: skip
    return Sample(**{**values, **changes})


WRONG = {"correct": False, "reason": "mismatch", "answer": "6"}
CUT = {"correct": False, "reason": "truncated", "answer": "", "truncated": True, "tokens": 40}


def test_a_sample_carries_its_verdict() -> None:
    made = make_sample(PROBLEM, 1, "bare", "prompt", r"It is \boxed{05}.", 7, False)
    assert (made.id, made.sample, made.variant) == ("p0", 1, "bare")
    assert (made.tokens, made.truncated) == (7, False)
    assert (made.answer, made.correct, made.reason) == ("05", True, "match-numeric")


@pytest.mark.parametrize(
    ("prompt", "reply", "reason"),
    [
        ("<think>\n", r"\boxed{5}", "truncated"),
        ("<think>\n", r"hm </think> \boxed{5}", "match-exact"),
        ("<think>\n\n</think>\n\n", r"\boxed{5}", "match-exact"),
    ],
)
def test_thinking_opened_by_the_prompt(prompt: str, reply: str, reason: str) -> None:
    problem = Problem("p0", "What is 2 + 3?", "5", "panel", "panel.jsonl:1")
    made = make_sample(problem, 0, "main", prompt, reply, 7, False)
    assert made.reason == reason
    assert made.reply == reply


def test_summary_over_two_problems() -> None:
    rows = [
        sample("a", 0), sample("a", 1, **WRONG), sample("b", 0, **CUT), sample("b", 1, **WRONG),
    ]  # fmt: skip
    scores = summarise(rows, 2)
    assert scores["problems"] == 2
    assert scores["pass_at_1"] == 0.25
    assert scores["best_of_k"] == 0.5
    assert scores["k"] == scores["samples_per_problem"] == 2
    assert scores["best_of_k_interval"] == pytest.approx([0.094531, 0.905469], abs=1e-6)
    assert scores["pass_at_1_interval"][0] < 0.25 < scores["pass_at_1_interval"][1]
    assert scores["truncation_rate"] == 0.25
    assert scores["no_box_rate"] == 0.25
    assert scores["mean_tokens"] == 17.5
    assert scores["reasons"] == {"match-exact": 1, "mismatch": 2, "truncated": 1}


def test_unfinished_problems_do_not_count() -> None:
    rows = [sample("a", 0), sample("a", 1), sample("b", 0, **WRONG)]
    assert set(complete_problems(rows, 2)) == {"a"}
    scores = summarise(rows, 2)
    assert (scores["problems"], scores["pass_at_1"]) == (1, 1.0)


def test_unreadable_golds_are_left_out_and_counted() -> None:
    bad = {"correct": False, "reason": "unreadable-gold", "gold": ""}
    scores = summarise([sample("a", 0), sample("b", 0, **bad)], 1)
    assert (scores["problems"], scores["unreadable_golds"], scores["pass_at_1"]) == (1, 1, 1.0)
    assert scores["reasons"] == {"match-exact": 1}


def test_nothing_finished_has_no_rates() -> None:
    scores = summarise([], 3)
    assert scores["problems"] == 0
    for key in ("pass_at_1", "best_of_k", "pass_at_1_interval", "best_of_k_interval",
                "truncation_rate", "no_box_rate", "mean_tokens"):  # fmt: skip
        assert scores[key] is None
