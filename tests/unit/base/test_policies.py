r"""The three policies side by side, on what graders are known to get wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.grading_pairs import hostile
from pipeline.base.grading import REASONS
from pipeline.base.policies import POLICIES, Grader


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    # A generous limit: only the test of limits may depend on time.
    with Grader("symbolic", seconds=60) as made:
        yield made


CASES = [
    # reply, gold, (harness, strict, symbolic), reason by symbolic
    (r"\boxed{072}", "72", "-++", "match-numeric"),
    (r"\boxed{72}", "072", "-++", "match-numeric"),
    (r"\boxed{72.0}", "72", "-++", "match-numeric"),
    (r"write \boxed here: \boxed{58}", "58", "-++", "match-exact"),
    (r"\boxed{\frac{1}{5}}", r"\frac{1}{6}", "---", "mismatch"),
    (r"\boxed{\frac{1}{5}}", "0.2", "-++", "match-numeric"),
    (r"\boxed{\frac{1}{34}}", r"\frac{13}{4}", "---", "mismatch"),
    (r"\boxed{5}, wait, \boxed{6}", "6", "+++", "match-exact"),
    (r"\boxed{5}, wait, \boxed{6}", "5", "---", "mismatch"),
    (r"\boxed{\frac15}", r"\frac{1}{5}", "+++", "match-normalised"),
    (r"\boxed{\text{Friday}}", "Friday", "-++", "match-normalised"),
    (r"\boxed{\sqrt[3]{64}}", "4", "-++", "match-numeric"),
    (r"\boxed{(7^(7^(7^(7^7)) - 3) - 2)/9}", "4", "---", "timeout"),
    (r"\boxed{1/2^{90}}", "1/2^{91}", "---", "mismatch"),
    (r"\boxed{2x+5y+9=0}", "2x-y+8=0", "---", "mismatch"),
    (r"\boxed{7\sqrt(3)}", "7", "---", "mismatch"),
    (r"\boxed{2197}", "1728 and 2197", "---", "mismatch"),
    (r"\boxed{2+\frac{1}{\mathrm{e}}}", r"2-\frac{1}{\mathrm{e}}", "---", "mismatch"),
    (r"\boxed{5}", "", "---", "unreadable-gold"),
    (r"\boxed{5}", r"\frac{7}{9", "---", "unreadable-gold"),
    ("It is 58, of course.", "58", "---", "no-box"),
    (r"<think>So \boxed{58}", "58", "---", "truncated"),
    (r"<think>\boxed{57}</think>\boxed{58}", "58", "+++", "match-exact"),
    (r"so \boxed{[3,7)}", "[3,7)", "+++", "match-exact"),
    (r"\boxed{[3,7]}", "[3,7)", "---", "mismatch"),
    (r"\[ \boxed{58} \]", "58", "+++", "match-exact"),
    (r"\boxed{-4,3}", "3,-4", "-++", "match-normalised"),
    (r"\boxed{(4,3)}", "(3,4)", "---", "mismatch"),
    (r"\boxed{3412}", "3412_8", "-++", "match-numeric"),
    (r"\fbox{58}", "58", "-++", "match-exact"),
    (r"\boxed{12,000}", "12000", "-++", "match-normalised"),
    (r"\boxed{k=6}", "6", "+++", "match-numeric"),
    (r"\boxed 3", "3", "+++", "match-exact"),
    (r"\boxed{30^\circ}", "30", "+++", "match-numeric"),
    (r"\boxed{35\text{ cm}}", "35", "+++", "match-numeric"),
    (r"\boxed{40%}", r"40\%", "-++", "match-normalised"),
    (r"\boxed{28}", r"28\%", "+++", "match-numeric"),
    (r"\boxed{3\frac{1}{2}}", "7/2", "-++", "match-numeric"),
    (r"\boxed{3\frac{1}{2}}", "3/2", "---", "mismatch"),
    (r"\boxed{12{,}000}", "12,000", "-++", "match-normalised"),
    (r"boxed{70}\).</answer>", "70", "---", "no-box"),
    ("**73**", "73", "---", "no-box"),
    (r"\boxed{840} and \boxed{840}", "840", "+++", "match-exact"),
    (r"\boxed{ }", "5", "---", "empty-box"),
    (r"\boxed{5", "5", "---", "unclosed-box"),
    (r"\boxed{(x+1)^2}", "x^2+2x+1", "--+", "match-symbolic"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "gold", "marks", "reason"), CASES)
def test_side_by_side(grader: Grader, reply: str, gold: str, marks: str, reason: str) -> None:
    found = grader.grade_by_all(reply, gold)
    assert "".join("+" if found[policy].correct else "-" for policy in POLICIES) == marks
    assert found["symbolic"].reason == reason
    assert grader.grade(reply, gold) == found["symbolic"]


def test_the_token_limit_is_a_reason_of_all(grader: Grader) -> None:
    found = grader.grade_by_all("It is", "5", truncated=True)
    assert {verdict.reason for verdict in found.values()} == {"truncated"}


@pytest.mark.parametrize(
    ("answer", "gold", "correct", "reason"),
    [
        ("033", "33", True, "match-numeric"),
        ("33.0", "33", True, "match-numeric"),
        ("33", "033", True, "match-numeric"),
        (r"x=33^\circ", "33", True, "match-numeric"),
        ("33.5", "33", False, "mismatch"),
        ("33_8", "33", False, "mismatch"),
        (r"\sqrt{1088+1}", "33", False, "mismatch"),
        ("1,2", "33", False, "mismatch"),
        ("3" * 2000, "33", False, "mismatch"),
        ("33", "33.5", False, "unreadable-gold"),
        ("m", r"m=\pm 7", False, "unreadable-gold"),
    ],
)
def test_integer_mode(answer: str, gold: str, correct: bool, reason: str) -> None:
    for policy in ("strict", "symbolic"):
        with Grader(policy, integer=True) as grader:
            verdict = grader.grade(f"\\boxed{{{answer}}}", gold)
            assert (verdict.correct, verdict.reason) == (correct, reason)


def test_hostile_answers_get_a_reason(grader: Grader) -> None:
    for reply, gold in hostile(600, seed=3):
        for verdict in grader.grade_by_all(reply, gold).values():
            assert verdict.reason in REASONS
            assert verdict.correct is verdict.reason.startswith("match")
