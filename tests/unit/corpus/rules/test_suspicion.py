"""Marks of cheating: precise ones, since a mark may drop a row."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.corpus.rows.schemas import Candidate
from pipeline.corpus.rules.suspicion import early_answer, reply_template, unreasoned

WORK = "First we add the pears of both baskets, 19 + 23 = 42, and then we take none away. "


def row(solution: str, thinking: str = "", **given: Any) -> Candidate:
    fields = {"problem": "How many pears?", "gold": "42", "gold_from": "stated", "schema": "s"}
    return Candidate(solution=solution, thinking=thinking, row_id="", **(fields | given))


@pytest.mark.parametrize(
    "solution",
    [
        "\\boxed{42}",
        "The final answer is \\boxed{42}.",
        "Therefore, we have $\\boxed{42}$.",
        "**Answer:** The correct option is \\boxed{42}!",
    ],
)
def test_a_bare_answer_is_unreasoned(solution: str) -> None:
    assert unreasoned(row(solution)) is not None
    assert unreasoned(row(solution, thinking="So the answer is 42.")) is not None


@pytest.mark.parametrize(
    "solution",
    [
        "19 + 23 = \\boxed{42}",
        "Step 1: 4 + 1 = 5.\nThe answer is \\boxed{5}.",
        "Each basket holds as many pears as the other one: \\boxed{42}",
        "The answer is \\boxed{42}. " + "Nothing else is said here. " * 20,
    ],
)
def test_any_reasoning_is_reasoning(solution: str) -> None:
    assert unreasoned(row(solution)) is None


@pytest.mark.parametrize(
    "start",
    [
        "The answer is 42. ",
        "The correct answer is given as 42, so let me work towards it. ",
        "Answer: **42**\n",
        "We know that the final answer is $\\boxed{42}$. ",
        "Expected answer: 42. ",
    ],
)
def test_the_answer_before_its_derivation_is_early(start: str) -> None:
    assert early_answer(row("\\boxed{42}", start + WORK * 20), 0.05) is not None
    assert early_answer(row(start + WORK * 20 + "\\boxed{42}"), 0.05) is not None
    assert early_answer(row("\\boxed{42}", WORK * 20 + start + WORK), 0.05) is None
    assert early_answer(row("\\boxed{42}", start + WORK * 20), 0.0) is None


@pytest.mark.parametrize(
    "start",
    [
        "There are 42 pears in the first basket. ",
        "If the answer is 42, then both are even. ",
        "Is the answer 42? Let us see. ",
        "The answer is 42 times as large as the first. ",
        "The answer is 420. ",
        "The answer is 42.5 for the other one. ",
        "The answer should be an integer below 1000, and 42 of them are even. ",
    ],
)
def test_a_number_that_merely_occurs_is_not_early(start: str) -> None:
    assert early_answer(row("\\boxed{42}", start + WORK * 20), 0.05) is None


def test_the_problem_s_own_words_are_not_early() -> None:
    given = {"problem": "The answer is 42. What was the question?"}
    thinking = "The answer is 42. So says the problem. " + WORK * 20
    assert early_answer(row("\\boxed{42}", thinking, **given), 0.05) is None


def test_a_short_solution_that_boxes_its_first_result_derives_it() -> None:
    solution = "As 19 + 23 = \\boxed{42}, that is it. " + WORK
    assert early_answer(row(solution), 0.05) is None


def test_replies_that_differ_in_figures_share_a_template() -> None:
    one = row("Step 1: 4 + 11 = 15.\nThe answer is \\boxed{15}.", "I add 4 and 11.")
    other = row("Step 1: 7 + -2.5 = 4.5.\nThe answer is \\boxed{4.5}.", "I add 7 and -2.5.")
    worded = row("Step 1: 4 + 11 = 15.\nThe sum is \\boxed{15}.", "I add 4 and 11.")
    thought = row("Step 1: 4 + 11 = 15.\nThe answer is \\boxed{15}.", "I sum 4 and 11.")
    assert reply_template(one) == reply_template(other)
    assert len({reply_template(each) for each in (one, worded, thought)}) == 3
    assert 0 <= reply_template(one) < 2**64


def test_the_answer_itself_is_no_part_of_the_template() -> None:
    assert reply_template(row("It is \\boxed{e}")) == reply_template(
        row("It is \\boxed{\\text{no}}")
    )
    assert reply_template(row("no box é")) != reply_template(row("no box"))
