"""Copies of protected problems are found; shared wording is not mistaken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.records import Problem, problem_id
from pipeline.corpus.overlap import Boilerplate, Hit, Protected, find_hit, tokens_of, words_of

LONG = (
    "A gardener plants tulips in seven rows so that every row after the first has three more "
    "flowers than the row before it. How many tulips are there?"
)
TAIL = "where m and n are relatively prime positive integers, find the value of m plus n."


def item(problem: str, source: str = "panel") -> Problem:
    return Problem(problem_id(problem), problem, "", source, f"{source}:1")


def protect(*problems: Problem, size: int = 13) -> Protected:
    index = Protected(size)
    for one in problems:
        index.add(one)
    return index


def hit(index: Protected, problem: str, training: list[str] | None = None) -> Hit | None:
    boilerplate = Boilerplate(0.01)
    for one in training or [problem]:
        boilerplate.note(index, problem_id(one), one)
    return find_hit(index, boilerplate, problem)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (LONG.upper(), "overlap-exact"),
        (LONG.replace(" ", "  ").replace(".", " ;"), "overlap-exact"),
        (f"Here is my homework. {LONG} Thanks!", "overlap-ngram"),
        (
            LONG.replace("A gardener", "Mr Green").replace("tulips are", "plants are"),
            "overlap-ngram",
        ),
        ("What is $2 + 3 \\cdot 4$?", "overlap-exact"),
        ("Tell me: what is 2+3×4 ? And why?", "overlap-contained"),
    ],
)
def test_copies_are_found(problem: str, reason: str) -> None:
    found = hit(protect(item(LONG), item("What is $2+3\\times4$?")), problem)
    assert found is not None
    assert found.reason == reason
    assert found.detail.startswith("panel panel:1: ")


@pytest.mark.parametrize(
    "problem",
    [
        "What is 2 - 3 * 4?",
        "What is 2 + 3 * 41?",
        "A gardener plants roses in nine rows. How many roses are there if each row has six?",
        " ".join(LONG.split()[:12]),
    ],
)
def test_other_problems_are_left(problem: str) -> None:
    assert hit(protect(item(LONG), item("What is 2 + 3 * 4?")), problem) is None


def test_very_short_problems_match_whole_only() -> None:
    index = protect(item("Simplify $\\sqrt{50}$."))
    assert hit(index, "simplify \\sqrt{50}") is not None
    assert hit(index, "Simplify $\\sqrt{50} + 1$.") is None


def test_wording_of_many_training_problems_is_no_evidence_but_a_copy_is() -> None:
    index = protect(item(f"A fraction is m/n {TAIL}"))
    names = "abcdefghijklmnop"
    training = [
        f"Team {name} wins {name}{name} games and the chance is m/n {TAIL}" for name in names
    ]
    assert hit(index, training[0], training) is None
    assert hit(index, training[0], training[:9]) is not None, (
        "a few copies do not excuse themselves"
    )
    assert hit(index, f"A fraction is m/n {TAIL}", training) is not None


def test_one_problem_with_many_traces_counts_once() -> None:
    index = protect(item(LONG))
    copy = f"Here is my homework. {LONG}"
    assert hit(index, copy, [copy] * 50) is not None


def test_wording_of_three_protected_problems_is_no_evidence() -> None:
    starts = (
        "A coin is tossed until it shows heads and the expected number is m/n",
        "Two circles of radius six touch inside a square whose area equals m/n",
        "Eleven cards lie upside down on tables near Lyon with probability m/n",
    )
    problem = f"Nine frogs jump over lily pads with mean distance m/n {TAIL}"
    items = [item(f"{start} {TAIL}") for start in starts]
    assert hit(protect(*items[:2]), problem) is not None
    assert hit(protect(*items), problem) is None
    versions = [item(f"{starts[0]} {TAIL} {extra}") for extra in ("", "Now.", "Please.", "Go.")]
    assert hit(protect(*versions), problem) is not None, "versions of one problem are one"
    across = [item(one.problem, f"set{number}") for number, one in enumerate(items)]
    assert hit(protect(*across), problem) is not None, "sets may repeat one another"


def test_a_hit_names_every_set_that_holds_the_text() -> None:
    found = hit(protect(item(LONG, "a"), item(LONG, "b"), item("What is 1 + 1?", "c")), LONG)
    assert found is not None
    assert found.sets == ["a", "b"]
    assert "a a:1 (also in b): " in found.detail


def test_layout_is_folded_and_values_are_not() -> None:
    same = [
        "$\\dfrac{1}{2} \\leq x_{1}$",
        "\\left(\\frac12\\right)\\,≤ x_1",
        "\\frac{1}{2}\\le x_1",
    ]
    assert len({tuple(tokens_of(text)) for text in (same[0], same[2])}) == 1
    assert tokens_of("1 + 1") != tokens_of("1 - 1")
    assert words_of(tokens_of("x^2 + 10{,}000")) == ["x", "2", "10000"]
    assert tokens_of("[asy] draw((0,0)); [/asy] Find.") == ["find"]


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_can_be_compared_and_equals_itself(one: str, other: str) -> None:
    index = protect(item(one), size=3)
    hit(index, other)
    found = hit(index, one)
    assert (found is not None) == bool(tokens_of(one))
