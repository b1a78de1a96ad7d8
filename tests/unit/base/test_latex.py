"""One spelling for the same text, and no two meanings made one."""

from __future__ import annotations

import pytest

from pipeline.base.latex import clean, matching_brace


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        (r"\frac1{2}", r"\frac{1}{2}"),
        (r"\frac{\frac12}{3}", r"\frac{\frac{1}{2}}{3}"),
        (r"\frac{1}{23}", r"\frac{1}{23}"),
        (r"\sqrt[2]{3}", r"\sqrt{3}"),
        (r"\sqrt[3] 8", r"\sqrt[3]{8}"),
        (r"\left[0,1\right)", "[0,1)"),
        (r"\leftarrow", r"\leftarrow"),
        (r"3\,000", "3000"),
        ("(3,000)", "(3,000)"),
        ("100, 200", "100,200"),
        ("100,200", "100200"),
        (r"\pi r^{2}", r"\pi r^2"),
        ("a b", "ab"),
        ("no solution", "no solution"),
        ("1 2", "1 2"),
        (r"x \leq 3", r"x\le3"),
        (r"\begin{array}{cc}1&2\end{array}", r"\begin{matrix}1&2\end{matrix}"),
        (r"1\\2", r"1\\2"),
        ("(x+1)/(x-1)", r"\frac{x+1}{x-1}"),
    ],
)
def test_clean(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned


@pytest.mark.parametrize(("text", "end"), [("{a{b}c}", 6), (r"{\}}", 3), ("{a", -1)])
def test_matching_brace(text: str, end: int) -> None:
    assert matching_brace(text, 0) == end
