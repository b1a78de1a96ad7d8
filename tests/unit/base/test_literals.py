"""Number literals are exact, and nothing but a bounded literal is a number."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.literals import MAX_DIGITS, literal


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("007", Fraction(7)),
        ("-.5", Fraction(-1, 2)),
        ("3.", Fraction(3)),
        (r"\frac{2}{6}", Fraction(1, 3)),
        (r"\frac{1.5}{-3}", Fraction(-1, 2)),
        (r"-2\frac{1}{3}", Fraction(-7, 3)),
        ("1.5*10^{2}", Fraction(150)),
        ("-10^3", Fraction(-1000)),
        (r"0.1\overline{6}", Fraction(1, 6)),
        (r"\sqrt[4]{81}", Fraction(3)),
        (r"-\sqrt{16}", Fraction(-4)),
        (r"\sqrt{15}", None),
        (r"\sqrt[0]{1}", None),
        (r"\frac{1}{0}", None),
        (r"2\frac{-1}{3}", None),
        ("10^{99}", None),
        ("2^{10}", None),
        ("1e5", None),
        ("x", None),
        ("", None),
        ("9" * (MAX_DIGITS + 1), None),
    ],
)
def test_literal(text: str, value: Fraction | None) -> None:
    assert literal(text) == value


@given(root=st.integers(0, 10**9), index=st.integers(2, 6))
def test_perfect_roots_are_exact(root: int, index: int) -> None:
    text = rf"\sqrt[{index}]{{{root**index}}}"
    assert literal(text) == root
    if root > 1:
        assert literal(rf"\sqrt[{index}]{{{root**index - 1}}}") is None


@given(value=st.fractions(max_denominator=10**6))
def test_fractions_round_trip(value: Fraction) -> None:
    assert literal(rf"\frac{{{value.numerator}}}{{{value.denominator}}}") == value
