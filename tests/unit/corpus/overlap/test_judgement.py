"""Copies, edits and the rest are told apart; wording is not mistaken for either."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.corpus.overlap.classes import classify
from pipeline.corpus.overlap.judgement import Judge, Pair
from pipeline.corpus.overlap.tokens import tokens_of
from tests.support.overlap import LONG, index_of, pairs_of, verdict_of

SHORT = "What is $2+3\\times4$?"
DIAGRAM = "In $\\triangle ABC$ we have $AB = BC = 41$ and $AC = 18$."
TAIL = "where m and n are relatively prime positive integers, find the value of m plus n."


@pytest.mark.parametrize(
    ("problem", "protected", "name", "methods"),
    [
        (LONG.upper(), LONG, "copy", ("exact", "ngram", "lcs")),
        (f"Here is my homework. {LONG} Thanks!", LONG, "copy", ("ngram", "lcs")),
        (LONG.replace("A gardener", "Mr Green"), LONG, "copy", ("ngram", "lcs")),
        ("What is $2 + 3 \\cdot 4$?", SHORT, "copy", ("exact",)),
        ("Tell me: what is 2+3×4 ? And why?", SHORT, "copy", ("contained",)),
        (
            f"{DIAGRAM} How long is the altitude to $AC$?",
            f"{DIAGRAM} Find the area.",
            "copy",
            ("lcs",),
        ),
        (LONG.replace("7", "11"), LONG, "edited", ("ngram", "masked")),
        (
            "The value of $z$ varies inversely as $\\sqrt w$ and when $w=9$, $z=8$. What is $w$?",
            "The value of $y$ varies inversely as $\\sqrt x$ and when $x=24$, $y=15$. What is $x$?",
            "edited",
            ("masked",),
        ),
        (
            "Let $f(x) = 2x-7$ and $g(x) = x+8$. What is the value of $g(f(5)-6)$?",
            "Let $f(x) = 2x-3$ and $g(x) = x+1$. What is the value of $g(f(5)-1)$?",
            "edited",
            ("masked",),
        ),
        (
            "If $4^8=1^x$, what is the value of $x$?",
            "If $2^8=4^x$, what is the value of $x$?",
            "review",
            ("masked",),
        ),
        (
            "Let $x$, $y$ and $z$ be positive real numbers such that $xy + z = 3$. "
            "Find the minimum value of $x^2 + yz$.",
            "Let $a$, $b$ and $c$ be positive real numbers such that $abc = 2$. "
            "Find the minimum value of $a^4 + 4b^2$.",
            "review",
            ("masked",),
        ),
    ],
)
def test_classes(problem: str, protected: str, name: str, methods: tuple[str, ...]) -> None:
    found = verdict_of(index_of(protected), problem)
    assert found is not None
    assert (found.name, found.methods) == (name, methods)


@pytest.mark.parametrize(
    "problem",
    [
        "What is 2 - 3 * 4?",
        "What is 2 + 3 * 41?",
        "A gardener plants roses in 9 rows. How many roses are there if each row has 6?",
        "Compute $\\binom{7}{2}$.",
    ],
)
def test_other_problems_are_left(problem: str) -> None:
    assert verdict_of(index_of(LONG, SHORT, "Compute $\\binom{9}{3}$."), problem) is None


def test_a_run_of_plain_phrasing_is_no_copy() -> None:
    index = index_of("Let $x$ be a real number such that $x > 1$. Compute $x$.")
    found = verdict_of(index, "Let $x$ be a real number such that $x > 1$. Prove $y$.")
    assert found is None or found.name == "review"


def test_very_short_problems_match_whole_only() -> None:
    index = index_of("Simplify $\\sqrt{50}$.")
    assert verdict_of(index, "simplify \\sqrt{50}") is not None
    assert verdict_of(index, "Simplify $\\sqrt{50} + 1$.") is None


def test_wording_of_three_protected_problems_is_no_evidence() -> None:
    starts = (
        "A coin is tossed until it shows heads and the expected number of throws is m/n",
        "Two circles of radius six touch inside a square whose shaded area equals m/n",
        "Eleven cards lie upside down on tables near Lyon with winning probability m/n",
    )
    problem = f"Nine frogs jump over lily pads with mean distance m/n {TAIL}"
    items = [f"{start} {TAIL}" for start in starts]
    shared = {run for pair in pairs_of(index_of(*items[:2]), problem) for run in pair.runs}
    assert not shared or verdict_of(index_of(*items[:2]), problem) is not None
    assert verdict_of(index_of(*items), problem) is None
    versions = [f"{LONG} {extra}" for extra in ("", "Now.", "Please.", "Go.")]
    assert verdict_of(index_of(*versions), LONG.replace("gardener", "farmer")) is not None


def test_cosines_count_and_are_kept() -> None:
    index = index_of(LONG)
    words = "Tulips stand in 7 rows, each 3 flowers longer than the last; count them."
    for cosine, name in ((0.9, "paraphrase"), (0.8, "review")):
        (pair,) = Judge(index, 0.85).pairs(words, [], {0: cosine})
        assert pair.cosine == cosine
        assert verdict_name(pair) == name
        assert Pair.from_json(json.loads(json.dumps(pair.to_json()))) == pair
    assert Judge(index, 0.85).pairs(words, [0]) == []


def verdict_name(pair: Pair) -> str | None:
    verdict = classify(pair.evidence())
    return None if verdict is None else verdict.name


@settings(deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_can_be_compared_equals_itself_and_survives_json(one: str, other: str) -> None:
    index = index_of(one, size=3)
    pairs_of(index, other)
    pairs = pairs_of(index, one)
    assert any(pair.exact for pair in pairs) == bool(tokens_of(one))
    assert [Pair.from_json(json.loads(json.dumps(pair.to_json()))) for pair in pairs] == pairs
