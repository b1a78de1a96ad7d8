"""What does not change a problem is folded, what does is kept."""

from __future__ import annotations

import pytest

from pipeline.corpus.overlap.tokens import masked_words, ngrams, tokens_of, words_of


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("$\\dfrac{1}{2} \\leq x_{1}$", "frac 1 2 le x 1"),
        ("\\left(\\frac{1}{2}\\right)\\,≤ x_1", "frac 1 2 le x 1"),
        ("10{,}000 = 10,000 = \\$10,\\!000", "10000 = 10000 = 10000"),
        ("(1,2,345) and 1,2345", "1 2345 and 1 2345"),
        ("2.5 apples. 3", "2.5 apples 3"),
        ("2\\cdot 3 \\times 4 ÷ 5 − 6", "2 * 3 * 4 / 5 - 6"),
        ("three times four", "three times four"),
        ("\\begin{pmatrix} 1 \\\\ -x \\end{pmatrix}", "1 - x"),
        ("\\begin{align*} a \\end{align*} b*", "a b *"),
        ("\\begin{array}{c|l} ll \\end{array}", "ll"),
        ("[asy] draw((0,0)); [/asy] Find.", "find"),
        ("Find. [asy] draw((0,0));", "find"),
        ("[asy] draw((0,0));\nFind 3.", "find 3"),
        ("[asy] a [/asy] x [asy] b\n y [asy] c", "x y"),
        ("[asy] a\n [asy] b [/asy] y", "y"),
        ("\\textbf{Don’t} left \\left", "dont left"),
        ("Ⅻ ﬁve ½", "xii five 1 / 2"),
    ],
)
def test_tokens(text: str, tokens: str) -> None:
    assert " ".join(tokens_of(text)) == tokens


def test_values_and_operators_stay_apart() -> None:
    assert tokens_of("1 + 1") != tokens_of("1 - 1")
    assert words_of(tokens_of("x^2 + 3")) == ["x", "2", "3"]


def test_runs_of_numbers_and_names_are_one_mask() -> None:
    one = masked_words(words_of(tokens_of("The quadratic $x^2+(2.6)x$ has $b$ roots, 3 real")))
    other = masked_words(words_of(tokens_of("The quadratic $3y^2$ has $c$ roots, 2 real")))
    assert one == other == ["the", "quadratic", "#", "has", "#", "roots", "#", "real"]


def test_ngrams_are_every_run() -> None:
    assert list(ngrams(["a", "b", "c"], 2)) == [("a", "b"), ("b", "c")]
    assert list(ngrams(["a"], 2)) == []
