"""Damaged characters, unfilled templates and refusals; and what resembles them."""

from __future__ import annotations

import pytest

from pipeline.corpus.rules.residue import damaged_characters, placeholder, refusal


@pytest.mark.parametrize("text", ["2 \ufffd 3", "30Â° wide", "donâ€™t", "cafÃ©", "ï¿½"])
def test_damaged_characters_are_found(text: str) -> None:
    assert damaged_characters(text) is not None


@pytest.mark.parametrize(
    "text", ["30° wide", "don’t", "café — naïve", "São Paulo", "â, Ã and Â are letters", "x² ≤ √2"]
)
def test_sound_characters_pass(text: str) -> None:
    assert damaged_characters(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "I am {{name}}, made by {{author}}.",
        "Yours, [Your Name]",
        "So: <your answer>",
        "PUT_IT_HERE",
    ],
)
def test_unfilled_templates_are_found(text: str) -> None:
    assert (placeholder(text) is None) == (text == "PUT_IT_HERE")


def test_a_field_in_capitals_is_found() -> None:
    assert placeholder("Answer: YOUR_ANSWER_HERE") == "YOUR_ANSWER_HERE"


@pytest.mark.parametrize(
    "text",
    [
        "\\frac{{abc}}{{def}} and x^{{max}}",
        "[yours](http://example.org) [1, 2]",
        "In a template {{ value }} stands for the value.",
        "{{1, 2}, {3}} is a set of sets, {{a}} too",
        "your answer here",
    ],
)
def test_formulas_and_code_pass(text: str) -> None:
    assert placeholder(text) is None


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't help with this request.",
        "I am sorry, but as a model I am unable to solve it.",
        "I cannot assist with that.",
        "As an AI language model, I cannot see the figure.",
        "I'm unable to provide the answer.",
    ],
)
def test_refusals_are_found(reply: str) -> None:
    assert refusal(reply) is not None


@pytest.mark.parametrize(
    "reply",
    [
        "I cannot find a smaller number, so it is 4.",
        "We cannot have both, and I am sorry to say that 3 fails.",
        "As an AI problem, it is easy. I solve it.",
        "He said: how? " * 30 + "I cannot help with that.",
        "I can't be 3, so the current I is 4.",
    ],
)
def test_arguments_pass(reply: str) -> None:
    assert refusal(reply) is None
