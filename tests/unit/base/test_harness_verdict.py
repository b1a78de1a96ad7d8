r"""The policy `harness` gives lm-evaluation-harness's verdicts, oddities included.

`HARNESS_VERDICTS` was recorded with lm-eval 0.4.13 by `bench.grading_peers` on the 10,000
pairs of `bench.grading_pairs.pairs`; `python -m bench.grading` compares with an installed one.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from bench.grading_pairs import pairs
from pipeline.base.harness_verdict import harness_answer, harness_box, harness_equal
from pipeline.base.policies import grade_as_harness

RECORDED = Path(__file__).with_name("harness_verdicts.json")


def test_recorded_verdicts_of_generated_pairs() -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    asked = pairs()
    assert hashlib.sha256(json.dumps(asked).encode()).hexdigest() == recorded["pairs_sha256"]
    bits = bin(int("1" + recorded["verdicts"], 16))[-len(asked) :]
    theirs = [bit == "1" for bit in bits]
    ours = [harness_equal(harness_answer(reply), gold) for reply, gold in asked]
    assert len(theirs) == 10_000
    assert 3_000 < sum(theirs) < 7_000
    assert [
        pair for pair, mine, peer in zip(asked, ours, theirs, strict=True) if mine != peer
    ] == []


@pytest.mark.parametrize(
    ("text", "box"),
    [
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1} \boxed{2}", "2"),
        (r"\boxed 5$ and more", "5"),
        (r"a \boxed in prose, \boxed{5}", r"in prose, \boxed{5}"),
        (r"\boxed{5} or \boxed{6", None),
        (r"\boxed5", None),
        (r"\fbox{5}", None),
    ],
)
def test_box(text: str, box: str | None) -> None:
    assert harness_box(text) == box


@pytest.mark.parametrize(
    ("answer", "gold", "same"),
    [
        (r"\frac12", r"\frac{1}{2}", True),
        ("0.5", "1/2", True),
        ("0.25", "1/4", False),
        ("1,000", "1000", False),
        ("x = 5", "5", True),
        ("f(x)=5", "5", False),
        (r"5\text{ cm}", "5", True),
        (r"5\text{ cm}\text{ or so}", "5", False),
        ("x/2", "x /2", False),
        (r"\sqrt3", r"\sqrt{3}", True),
        (r"\sqrt", r"\sqrt ", False),
        (r"\frac", r"\frac ", False),
        (r"\frac1", r"\frac 1", True),
        ("033", "33", False),
    ],
)
def test_equality(answer: str, gold: str, same: bool) -> None:
    assert harness_equal(answer, gold) is same
    assert harness_equal(gold, answer) is same


@pytest.mark.parametrize(
    ("reply", "gold", "correct", "reason"),
    [
        (r"\boxed{7}", "7", True, "match-exact"),
        (r"\boxed{\dfrac17}", r"\frac{1}{7}", True, "match-normalised"),
        (r"\boxed{7}", r"so \boxed{7}", True, "match-exact"),
        ("7", "7", True, "match-exact"),
        ("It is $7$.", "7", True, "match-exact"),
        ("It is 7.", "7", False, "no-box"),
        (r"\boxed{8}", "7", False, "mismatch"),
        (r"\boxed{8", "7", False, "unclosed-box"),
        (r"\boxed{7}", "", False, "unreadable-gold"),
        ("<think>7", "7", False, "truncated"),
        (r"<think>\boxed{7}</think>" + "\n\n7", "7", True, "match-exact"),
        (r"<think>\boxed{7}</think>\boxed{8}", "7", False, "mismatch"),
    ],
)
def test_graded_as_the_harness(reply: str, gold: str, correct: bool, reason: str) -> None:
    verdict = grade_as_harness(reply, gold)
    assert (verdict.correct, verdict.reason) == (correct, reason)
