"""The box that is graded is found by the end of a reply, or by all of it."""

from __future__ import annotations

import pytest

from pipeline.base.grading import grade, last_boxed
from pipeline.corpus.rules.boxes import answer_in, boxed_answers, final_answer, grade_reply

REPLIES = [
    "It is \\boxed{4}.",
    "First \\boxed{3}, then \\boxed{\\frac{1}{2}} and more.",
    "\\boxed{\\boxed{5}}",
    "\\fbox{7} is it",
    "\\boxed{4} and \\boxed{} and \\boxed",
    "\\boxed{4} and \\boxed{5",
    "\\boxed 2",
    "\\boxed{4} then \\boxed 2",
    "<think> \\boxed{1} </think> \\boxed{2}",
    "<think> \\boxed{1}",
    "\\{ \\boxed{ \\{1, 2\\} } \\}",
    "} } \\boxed{6} {",
    "none",
    "",
]


@pytest.mark.parametrize("reply", REPLIES)
def test_the_short_way_grades_like_the_long_one(reply: str) -> None:
    for gold in ("4", "2", "5", "\\frac{1}{2}", "7", "\\{1,2\\}", "6"):
        assert grade_reply(reply, gold).correct == grade(reply, gold).correct
        assert grade_reply(reply, gold).answer == grade(reply, gold).answer
    answer = final_answer(reply)
    assert answer is None or answer == last_boxed(reply)
    assert (answer_in(reply) or "") == grade(reply, "4").answer or "<think>" in reply


def test_the_end_decides_only_where_it_can() -> None:
    assert final_answer("\\boxed{3} or \\boxed{4}") == "4"
    assert final_answer("\\boxed{4} and \\boxed{5") is None
    assert answer_in("\\boxed{4} and \\boxed{5") == "4"


def test_boxes_are_read_in_order_and_in_bounded_number() -> None:
    assert boxed_answers("\\boxed{1} \\boxed{\\frac{2}{3}} \\boxed{") == ["1", "\\frac{2}{3}"]
    assert len(boxed_answers("\\boxed{1} " * 20_000)) == 20
