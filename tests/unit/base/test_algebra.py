r"""Equality by algebra: what is proven, what stays different, what is refused."""

from __future__ import annotations

import pytest
import sympy

from pipeline.base import algebra
from pipeline.base.algebra import _refuted, compare
from pipeline.base.expressions import MAX_CHARACTERS
from pipeline.base.latex import clean

SAME = [
    ("a_{12}+b", "b+a_{12}"), ("2|x-1|", "|2-2x|"), ("(x=4, 1)", "(2x=8, 1)"),
    ("(x+3)^2", "x^2+6x+9"), (r"\sqrt{12}", r"2\sqrt3"), (r"\frac{2}{\sqrt 2}", r"\sqrt2"),
    (r"\sqrt{3+2\sqrt2}", r"1+\sqrt2"), (r"2^{9}", "512"), (r"\log_3 81", "4"), ("5!", "120"),
    (r"\binom{6}{2}", "15"), (r"\ln e^2", "2"), (r"\frac{2+5i}{3}", r"\frac23+\frac53i"),
    (r"\sin^2 x+\cos^2 x", "1"), (r"\sin 2x", r"2\sin x\cos x"), (r"|x-2|", r"|2-x|"),
    (r"-\frac{x-4}{3}", r"\frac{4-x}{3}"), (r"\frac{2\pi}{5}", r"0.4\pi"), ("2(x+1)/4", "(x+1)/2"),
    (r"\lfloor 3.7 \rfloor", "3"), (r"\lceil 3.2 \rceil", "4"), (r"e^{2\ln 3}", "9"),
    (r"\exp(2)", "e^2"), ("x_1+x_2", "x_{2}+x_{1}"), (r"\alpha^2\alpha", r"\alpha^3"),
    (r"(\sqrt{4}, 2^3)", "(2, 8)"), (r"\{2^2, 3^2\}", r"\{9, 4\}"),
    (r"[2^2, \infty)", r"[4,\infty)"),
    (r"(2^2,5)\cup(\sqrt{49},9)", r"(7,9)\cup(4,5)"), (r"(1,8)\setminus\{3\}", r"(1,3)\cup(3,8)"),
    (r"\mathbb{R}\setminus\{0\}", r"(-\infty,0)\cup(0,\infty)"),
    (r"\begin{pmatrix}2^2&1\\0&1\end{pmatrix}", r"\begin{bmatrix}4&1\\0&1\end{bmatrix}"),
    ("3x+6=0", "x+2=0"), ("y=2x+1", "2x-y+1=0"), ("x<4", "4>x"), (r"-x\le 4", r"x\ge -4"),
    (r"x=\sqrt{16}", "x=4"), (r"\sqrt{48}\text{ cm}", r"4\sqrt3"), (r"\cotx", r"\cot x"),
    (r"\arctan 1", r"\frac{\pi}{4}"), (r"3\frac{1}{2}x", r"\frac{7x}{2}"),
    (r"\sqrt[3]{16}", r"2\sqrt[3]2"),
]  # fmt: skip

DIFFERENT = [
    # accepted by other graders, in other numbers
    ("1/2^{90}", "1/2^{91}"), ("(1/3^{80},2)", "(1/3^{81},2)"), ("2x+5y+9=0", "2x-y+8=0"),
    (r"7\sqrt(3)", "7"), (r"2+\frac{1}{\mathrm{e}}", r"2-\frac{1}{\mathrm{e}}"),
    # nearly equal, equal for some values only
    ("3^{60}", "3^{60}+1"), (r"\sqrt{x^2}", "x"), (r"\frac{1}{3}", "0.3333333333"), ("x", "y"),
    (r"e^{-150}", r"e^{-151}"), (r"\ln(x^2)", r"2\ln x"), (r"\pi", "3.14159265358979"),
    # order, brackets, shapes, direction, labels, units
    ("(2,3)", "(3,2)"), ("[1,2)", "[1,2]"), ("(1,2,3)", "(1,2)"), ("(2,3)", "5"), ("1,2", "1,2,3"),
    (r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    ("x<4", "x>4"), ("x<4", r"x\le 4"), ("x=4", "x<4"), ("x=4", "y=4"),
    ("0=0", "x=1"), ("1<x<2", "1<x<3"),
    (r"\sqrt{9}\text{ cm}", r"3\text{ m}"), ("12_8", "12_9"),
    (r"\infty", r"-\infty"), (r"(1,2)\cup(3,4)", "(1,2)"),
    (r"\log 8", r"\log_2 8"), ("1,1,2", "1,2,2"),
]  # fmt: skip

REFUSED = [
    ("wonder", "5"), (r"\text{red}", "5"), ("1 2", "12"), ("1/2x", "5x"), (r"\foo{1}", "1x"),
    (r"\frac{1}{0}", "5"), ("0^{-1}", "5"), ("x+", "5"), ("(x", "5"),
    (r"\sin^{-1}x", "5"), ("#", "5"),
    (r"(1,4)\setminus\{7\}", "(1,4)"), (r"(1,4)\setminus\{x\}", "(1,4)"),
    (r"\frac12)", "5"), ("", "5x"),
    ("x^", "5"), (r"\sqrt", "5"),
]  # fmt: skip

TOO_LARGE = [
    ("(7^(7^(7^(7^7)))-3)/2", "4"), ("x^{99999999}", "4"), ("(x+1)^{500}", "4"), ("9!!!!", "4"),
    (r"\binom{99999}{4}", "4"), ("(" * 45 + "x+1" + ")" * 45, "4"),
    ("x+" * MAX_CHARACTERS + "x", "4"),
    (r"\sqrt[9]{x+1}^{999}", "4"), ("(1," * 8 + "2" + ")" * 8, "(1," * 8 + "3" + ")" * 8),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SAME)
def test_equal_by_algebra(left: str, right: str) -> None:
    assert compare(clean(left), clean(right)) == "same"
    assert compare(clean(right), clean(left)) == "same"


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_different_stays_different(left: str, right: str) -> None:
    assert compare(clean(left), clean(right)) == "different"
    assert compare(clean(right), clean(left)) == "different"


@pytest.mark.parametrize(("left", "right"), REFUSED)
def test_outside_the_grammar(left: str, right: str) -> None:
    assert compare(clean(left), clean(right)) in ("unreadable", "different")
    assert compare(clean(left), clean(left.replace("x", "y") + " ")) != "too-large"


@pytest.mark.parametrize(("left", "right"), TOO_LARGE)
def test_limits(left: str, right: str) -> None:
    assert compare(clean(left), clean(right)) in ("too-large", "unreadable")


X = sympy.Symbol("x")


@pytest.mark.parametrize(
    ("left", "right", "refuted"),
    [
        (sympy.sqrt(X**2), X, True),
        (X + X, 2 * X, False),
        (sympy.sqrt(2) + sympy.sqrt(3), sympy.sqrt(5 + 2 * sympy.sqrt(6)), False),
        (sympy.pi, sympy.Rational(314159265358979, 10**14), True),
        (1 / (X - X), X, True),  # no finite value anywhere
    ],
)
def test_numbers_refute(left: sympy.Expr, right: sympy.Expr, refuted: bool) -> None:
    assert _refuted(left, right) is refuted


def test_a_failure_of_the_library_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: str) -> sympy.Expr:
        raise TypeError("cannot determine truth value")

    monkeypatch.setattr(algebra, "parse", failing)
    assert compare("x+1", "1+y") == "unreadable"
