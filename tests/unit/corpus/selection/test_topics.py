"""What a problem is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.selection.topics import BUCKETS, SUBJECTS, TOPICS, topic_of


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("geometry", "A circle of radius 3 touches two sides of a square. Find its area."),
        ("numbers", "What is the remainder of $7^{100}$ when divided by 13?"),
        ("counting", "How many ways are there to choose a committee of three?"),
        ("probability", "A fair coin is flipped four times. What is the probability of two heads?"),
        ("algebra", "Solve the quadratic equation $x^2 - 5x + 6 = 0$."),
        ("trigonometry", "If $\\tan \\theta = 2$, find $\\cos \\theta$."),
        ("everyday", "A shirt costs 20 dollars after a 20 percent cut. What was the price?"),
        ("other", "17 + 25"),
        ("other", ""),
    ],
)
def test_subjects(subject: str, problem: str) -> None:
    assert SUBJECTS[topic_of(problem) // BUCKETS] == subject


def test_layout_and_case_change_nothing() -> None:
    plain = "Find the area of a triangle."
    assert topic_of(plain) == topic_of("FIND the \n AREA  of a triangle!")


def test_common_words_and_the_names_of_commands_do_not_count() -> None:
    filler = "Find the value of \\frac{1}{2} if \\left( \\sqrt{3} \\right) and \\cdot are given."
    for word in ("windmill", "lake", "apple", "triangle", "violin", "harbour", "zebra", "meadow"):
        assert topic_of(word) == topic_of(f"{word}. {filler}")


def test_likely_words_share_a_bucket_and_others_spread() -> None:
    names = ["anna", "boris", "clara", "dmitri", "elena", "fatima", "george", "hanna", "ivan"]
    template = "{} walks from the village over hills towards windmills beside lakes"
    assert len({topic_of(template.format(name)) for name in names}) <= 3
    assert len({topic_of(name) for name in names}) >= 4


@given(st.text(max_size=60))
def test_any_text_has_a_topic(text: str) -> None:
    assert 0 <= topic_of(text) < TOPICS
    assert topic_of(text + "." * 9) == topic_of(text)
