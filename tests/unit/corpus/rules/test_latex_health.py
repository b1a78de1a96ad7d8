r"""LaTeX damaged beyond an oversight is found, heavy and slightly wrong LaTeX is not."""

from __future__ import annotations

import pytest

from pipeline.corpus.rules.latex_health import broken_latex, html_remains

HEAVY = "\\[\\sum_{k=1}^{n}\\frac{\\binom{n}{k}}{\\sqrt{\\frac{k}{n}}}\\le\\int_0^1 x^{k}\\,dx\\]\n"


@pytest.mark.parametrize(
    "text",
    [
        HEAVY * 50,
        "It costs $5 and the other one $7, so { is missing and } too.",
        "\\frac{1}{1+\\frac{1}{1+\\frac{1}{1+\\frac{1}{1+\\frac{1}{1+\\frac{1}{2}}}}}}",
        "\\begin{cases} 1 \\\\ 2 \\\\ 3",
        "\\{1, 2\\} and \\{3" * 10,
        "\\begin{matrix} a\\\\\\frac{1}{2}\\\\\\sqrt{2}\\\\b\\\\c\\\\text{d}\\end{matrix}" * 3,
        "plain words",
        "",
    ],
)
def test_honest_latex_passes(text: str) -> None:
    assert broken_latex(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\\" * 400 + "x" * 300, "backslashes"),
        ("a\\\\\\\\frac{1}{2} " * 6 + "words " * 40, "four backslashes"),
        ("\\\\frac{1}{2} \\\\times \\\\sqrt{3} " * 2, "two backslashes"),
        ("\\frac{1}{2 + {3 + {4 " * 10, "braces"),
        ("} so it is " * 12, "0 opening"),
        ("\\begin{align} x " * 3, "\\begin"),
        ("so \\frac\\frac \\frac{1}{2}", "chain"),
        ("\\frac{" * 8 + "1" + "}{2}" * 8, "chain"),
        ("$$$$$$ 5 $$", "dollar"),
    ],
)
def test_damage_is_named(text: str, said: str) -> None:
    found = broken_latex(text)
    assert found is not None
    assert said in found


def test_remains_of_a_page_are_found() -> None:
    assert html_remains('<span class="katex">2</span><mrow><mn>3</mn></mrow>') is not None
    assert html_remains("x &lt; 3 &amp; y &gt; 2, so z&nbsp;= 1") is not None


@pytest.mark.parametrize(
    "text",
    ["a < b > c & d \\\\ e &= f", "<b>bold</b> <i>new</i> <p>old</p>", "x &lt; y", "<m, n> & <m>"],
)
def test_comparisons_and_few_tags_pass(text: str) -> None:
    assert html_remains(text) is None
