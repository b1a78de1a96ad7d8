r"""Pairs that are the same and pairs that only look so; docs/grading.md states each rule."""

from __future__ import annotations

import pytest

from pipeline.base.answers import normalise_answer, same_answer

SAME = [
    # integers, separators, decimals
    ("041", "41"), ("41", "041"), ("41.0", "41"), ("+41", "41"), ("-0", "0"), (".5", "0.5"),
    ("12,500", "12500"), ("12{,}500", "12,500"), (r"12,\!500", "12500"), ("2,000,000", "2000000"),
    # fractions
    (r"\frac34", "0.75"), (r"\frac{3}4", "3/4"), (r"\dfrac{3}{4}", r"\tfrac 34"), ("6/8", "0.75"),
    (r"-\frac{1}{2}", r"\frac{-1}{2}"), (r"\frac{1}{-2}", "-0.5"), (r"3\frac{1}{4}", "13/4"),
    ("3 1/4", "13/4"), (r"0.\overline{6}", "2/3"), (r"2.5\times 10^{3}", "2500"),
    ("10^{-2}", "0.01"),
    # roots and products
    (r"\sqrt7", r"\sqrt{7}"), (r"\sqrt[3]{27}", "3"), (r"\sqrt{49}", "7"),
    ("5*sqrt(2)", r"5\sqrt{2}"),
    (r"\frac{\sqrt{2}}{2}", "sqrt(2)/2"), (r"-\frac{\sqrt{2}}{3}", r"\frac{-\sqrt{2}}{3}"),
    (r"3\pi", "3*pi"), ("π/4", r"\frac{\pi}{4}"), (r"2\cdot x", "2x"),
    # sums in any order, equations side by side
    ("4i+3", "3+4i"), ("x^{2}-1", "-1+x^2"), ("2+x=7", "x+2=7"), ("y > x+1", "y>1+x"),
    # labels
    ("x=4", "4"), (r"x \in [1,3]", "[1,3]"), ("f(x) = 2x", "2x"), ("(a,b)=(1,2)", "(1,2)"),
    # units, degrees, percent, money, bases
    (r"60^\circ", "60"), ("60°", "60 degrees"), (r"12\text{ cm}", "12"),
    (r"12\,\mathrm{cm}", "12 cm"),
    (r"12\text{ cm}^2", "12"), ("3 hours", "3"), (r"40\%", "40%"), ("40", r"40\%"),
    (r"\$8.50", "8.5"),
    ("7 inches", r"7\text{ in}"), ("3724", "3724_8"), ("101_2", r"101_{\text{two}}"),
    # lists, tuples, intervals, sets, matrices
    ("3,-1", "-1, 3"), ("1, 2, and 3", "3,2,1"), (r"1\text{ or }2", "2,1"), (r"\{4, 5\}", "5,4"),
    (r"\left(1, \frac12\right)", "(1,0.5)"),
    (r"(-\infty,1)\cup[2,\infty)", r"[2,\infty)\cup(-\infty,1)"),
    (r"\begin{pmatrix} 1 \\ 1/2 \end{pmatrix}", r"\begin{bmatrix}1\\0.5\end{bmatrix}"),
    (r"\pm 6", "6,-6"), (r"n = \pm 6", r"\pm6"), (r"2\pm\sqrt{3}", r"2-\sqrt{3}, 2+\sqrt{3}"),
    # words and letters
    (r"\text{Monday}", "monday"), (r"\textbf{(C)}", "C"), ("(C)", "C"), (r"\mathrm{e}^2", "e^2"),
    ("$9$", "9"), (r"\(9\)", "9"), ("9.", "9"),
]  # fmt: skip

DIFFERENT = [
    (r"\frac{1}{2}", r"\frac{1}{4}"), (r"\frac{1}{45}", r"\frac{14}{5}"), (r"3\frac{1}{4}", "3/4"),
    ("3 1/4", "31/4"), ("0.333", "1/3"), ("0.4", "40%"), ("1000.0001", "1000"),
    ("1/3^70", "1/3^71"), ("2x-3y+1=0", "2x+3y-1=0"), (r"6\sqrt{5}", "6"), ("512", "343 and 512"),
    (r"2+\frac{1}{\mathrm{e}}", r"2-\frac{1}{\mathrm{e}}"), ("1+2+x=9", "1+x=9+2"),
    ("[1,4]", "[1,4)"), ("(1,4)", "[1,4]"), ("(3,4)", "(4,3)"), ("3,4", "3,5"), ("3", "3,3"),
    (r"2\cdot 5", "25"), (r"4\cdot\frac{1}{2}", r"4\frac{1}{2}"), ("2^{10}", "210"),
    ("x=1,y=2", "x=2,y=1"), ("x=3", "y=3"), (r"5\text{ cm}", r"5\text{ m}"), ("5%", "5 cm"),
    ("5 p.m.", "5"), (r"5\text{ pm}", r"5\text{ am}"), ("5 million", "5"), ("12_3", "12_5"),
    ("x", "X"), ("AB", "ab"), ("A", "B"), (r"\sqrt{50}", "7"), ("1/0", "0"), (r"\frac{1}{0}", "0"),
    (r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"), (r"\pm 6", "6"),
    ("(1,2),(3,4)", "(1,2),(4,3)"), ("xy", "x+y"), ("-3", "3"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "gold"), SAME)
def test_same(answer: str, gold: str) -> None:
    assert same_answer(answer, gold) is not None
    assert same_answer(gold, answer) is not None


@pytest.mark.parametrize(("answer", "gold"), DIFFERENT)
def test_different(answer: str, gold: str) -> None:
    assert same_answer(answer, gold) is None
    assert same_answer(gold, answer) is None


@pytest.mark.parametrize(
    ("raw", "normal"),
    [
        (r"\dfrac12", r"\frac{1}{2}"),
        ("7/9", r"\frac{7}{9}"),
        (r"\sqrt 5", r"\sqrt{5}"),
        (r"\left( 1 ,\, 2 \right)", "(1,2)"),
        ("a/b/c", "a/b/c"),
        ("1/2x", "1/2x"),
        (r"\text{ two words }", "two words"),
    ],
)
def test_normalise_answer(raw: str, normal: str) -> None:
    assert normalise_answer(raw) == normal


def test_long_answers_match_only_as_they_stand() -> None:
    long = "1+" * 600 + "x"
    assert same_answer(long.replace("+", " + "), long.replace("+", "  + ")) == "match-normalised"
    assert same_answer("x+" + long, long + "+x") is None
