r"""Which box is graded, which reason is given, and that no text can break it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.base.grading import (
    REASONS,
    after_thinking,
    grade,
    is_readable_gold,
    last_boxed,
    unbox,
)


@pytest.mark.parametrize(
    ("text", "box"),
    [
        (r"So \[ \boxed{17} \].", "17"),
        (r"first \boxed{4}, no: \boxed{9}", "9"),
        (r"\boxed{250} and again \boxed{250}", "250"),
        (r"\boxed{\frac{3}{\sqrt{5}}}", r"\frac{3}{\sqrt{5}}"),
        (r"\boxed{\boxed{8}}", "8"),
        (r"\boxed {12}", "12"),
        (r"\fbox{12}", "12"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{6} as asked, in \boxed{}", "6"),
        (r"\boxed{6} and then \boxed{7", "6"),
        (r"$\boxed 5$ it is", "5"),
        (r"$\boxed 5.$", "5"),
        (r"$\boxed\frac12$", r"\frac12"),
        (r"I write \boxed 3 but mean \boxed{4}", "4"),
        (r"{ open set, \boxed{31}", "31"),
        (r"a stray } then \boxed{31}", "31"),
        (r"the command \boxed is for answers", None),
        (r"boxed{70}", None),
        (r"\boxedly{70}", None),
        ("**73**", None),
        ("", None),
    ],
)
def test_last_boxed(text: str, box: str | None) -> None:
    assert last_boxed(text) == box


@pytest.mark.parametrize(
    ("reply", "visible"),
    [
        ("plain", "plain"),
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>a", ""),
        ("<think>a</think>b<think>c", ""),
    ],
)
def test_after_thinking(reply: str, visible: str) -> None:
    assert after_thinking(reply) == visible


@pytest.mark.parametrize(
    ("reply", "gold", "truncated", "correct", "reason"),
    [
        (r"\boxed{21}", "21", False, True, "match-exact"),
        (r"\boxed{\dfrac{1}{4}}", r"\frac14", False, True, "match-normalised"),
        (r"\boxed{0.25}", "1/4", False, True, "match-numeric"),
        (r"\boxed{22}", "21", False, False, "mismatch"),
        ("It is 21.", "21", False, False, "no-box"),
        (r"It is \boxed{21", "21", False, False, "unclosed-box"),
        (r"It is \boxed{ }", "21", False, False, "empty-box"),
        ("It is 2", "21", True, False, "truncated"),
        (r"It is \boxed{2", "21", True, False, "truncated"),
        (r"It is \boxed{21}. Let me check th", "21", True, True, "match-exact"),
        (r"<think>\boxed{21}", "21", False, False, "truncated"),
        (r"<think>\boxed{21}", "21", True, False, "truncated"),
        (r"<think>\boxed{5}</think>\boxed{21}", "21", False, True, "match-exact"),
        (r"<think>\boxed{21}</think>It is 21.", "21", False, False, "no-box"),
        (r"\boxed{21}", r"$\boxed{21}$", False, True, "match-exact"),
        (r"\boxed{21}", "", False, False, "unreadable-gold"),
        (r"\boxed{}", "", False, False, "unreadable-gold"),
        (r"\boxed{\frac{7}{9}}", r"\frac{7}{9", False, False, "unreadable-gold"),
    ],
)
def test_verdicts(reply: str, gold: str, truncated: bool, correct: bool, reason: str) -> None:
    verdict = grade(reply, gold, truncated=truncated)
    assert (verdict.correct, verdict.reason) == (correct, reason)
    assert reason in REASONS


MISGRADED_ELSEWHERE = [
    # leading zeros and whole decimals are integers
    (r"\boxed{072}", "72", True), (r"\boxed{72}", "072", True), (r"\boxed{72.0}", "72", True),
    # a mention of the command is no box
    (r"Put it in \boxed here. So \boxed{58}", "58", True),
    # nested braces
    (r"\boxed{\frac{1}{5}}", r"\frac{1}{6}", False), (r"\boxed{\frac{1}{5}}", "0.2", True),
    (r"\boxed{\frac{1}{34}}", r"\frac{13}{4}", False),
    # the last box counts; short fractions, words, roots
    (r"\boxed{5}, no, it is \boxed{6}", "5", False), (r"\boxed{\frac15}", "1/5", True),
    (r"\boxed{\text{Friday}}", "Friday", True), (r"\boxed{\sqrt[3]{64}}", "4", True),
    # nearly equal is not equal
    ("\\boxed{1/2^90}", "1/2^91", False), ("\\boxed{2x+5y+9=0}", "2x-y+8=0", False),
    (r"\boxed{7\sqrt(3)}", "7", False), (r"\boxed{2197}", "1728 and 2197", False),
    (r"\boxed{2+\frac{1}{\mathrm{e}}}", r"2-\frac{1}{\mathrm{e}}", False),
    # nobody is right against a gold that cannot be read
    (r"\boxed{\frac{63}{500}}", r"\frac{63}{500", False), (r"\boxed{1}", "", False),
    # no box; thinking that never ends; thinking with both tags
    ("The answer is 58.", "58", False), (r"<think>It is \boxed{58}.", "58", False),
    (r"<think>\boxed{57}?</think>It is \boxed{58}.", "58", True),
    # intervals, lists, displays, bases
    (r"The range is \boxed{[3,7)}", "[3,7)", True), (r"\boxed{[3,7]}", "[3,7)", False),
    (r"\[ \boxed{58} \]", "58", True), (r"\boxed{-4,3}", "3,-4", True),
    (r"\boxed{3412}", "3412_8", True), (r"\fbox{58}", "58", True),
    (r"\boxed{m = \pm 9}", "9,-9", True),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "gold", "correct"), MISGRADED_ELSEWHERE)
def test_pairs_that_other_graders_get_wrong(reply: str, gold: str, correct: bool) -> None:
    assert grade(reply, gold).correct is correct


def test_answer_is_what_was_in_the_box() -> None:
    assert grade(r"\boxed{ 12\text{ cm} }", "12").answer == r"12\text{ cm}"


@pytest.mark.parametrize(("gold", "bare"), [(r"so \boxed{8}", "8"), (" 8 ", "8")])
def test_unbox(gold: str, bare: str) -> None:
    assert unbox(gold) == bare


@pytest.mark.parametrize(
    ("gold", "readable"),
    [("8", True), (r"\frac{63}{400}", True), ("[2,5)", True), ("", False), ("$ $", False),
     (r"\text{}", False), ("{3", False), ("}3{", False)],
)  # fmt: skip
def test_readable_gold(gold: str, readable: bool) -> None:
    assert is_readable_gold(gold) is readable


PIECES = st.sampled_from(
    [r"\boxed{", r"\boxed", r"\frac", r"\sqrt", r"\text{", r"\pm", r"\cup", r"\{", r"\}", r"\left",
     r"\begin{pmatrix}", r"\end{pmatrix}", r"\overline", r"^\circ", "10^{9}", "and ", "{", "}", "(",
     ")", "[", "]", ",", "1", "23", "0.", "x", "^", "_", "=", "/", "-", "+", "*", " ", "$", "%",
     "<think>", "</think>", "\0", "\ud83d", "é", "٣"]
)  # fmt: skip
HOSTILE = st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=16).map("".join))


@settings(max_examples=400, deadline=None)
@given(reply=HOSTILE, gold=HOSTILE, truncated=st.booleans())
def test_never_raises(reply: str, gold: str, truncated: bool) -> None:
    assert grade(reply, gold, truncated=truncated).reason in REASONS
    assert grade("\\boxed{" + reply + "}", gold).reason in REASONS


INTEGERS = st.integers(-(10**12), 10**12).map(str)
GOLDS = st.one_of(
    INTEGERS,
    st.decimals(-1000, 1000, places=3).map(str),
    st.tuples(INTEGERS, st.integers(1, 999)).map(lambda pair: rf"\frac{{{pair[0]}}}{{{pair[1]}}}"),
    st.lists(INTEGERS, min_size=2, max_size=4).map(lambda items: f"({','.join(items)})"),
    st.text("abcxyz+-2^ ", min_size=1).filter(is_readable_gold),
)


@given(gold=GOLDS)
def test_gold_in_a_box_is_right(gold: str) -> None:
    assert grade("\\boxed{" + gold + "}", gold).correct


@given(gold=st.integers(-(10**9), 10**9), other=st.integers(-(10**9), 10**9))
def test_another_integer_is_wrong(gold: int, other: int) -> None:
    assert grade(rf"\boxed{{{other}}}", str(gold)).correct is (gold == other)


@pytest.mark.parametrize(
    "reply",
    ["\\boxed{" * 50_000, "\\boxed{" * 50_000 + "}" * 50_000, "\\boxed1" * 50_000, "{" * 300_000,
     ("\\boxed" + " " * 500) * 500, "\\boxed{" + "9" * 300_000 + "}",
     "\\boxed{" + "(" * 990 + "}", "\\boxed{" + "\\frac" * 190 + "}"],
)  # fmt: skip
def test_hostile_length_costs_a_pass(reply: str) -> None:
    started = time.monotonic()
    assert not grade(reply, "4").correct
    assert time.monotonic() - started < 2.0


def test_power_tower_is_text() -> None:
    started = time.monotonic()
    assert grade(r"\boxed{(7^(7^(7^(7^7))) - 3)/2}", "4").reason == "mismatch"
    assert time.monotonic() - started < 0.5
