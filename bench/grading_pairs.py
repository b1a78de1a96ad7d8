r"""Generated replies and golds on which graders are compared, and hostile replies.

Used by bench/grading.py and by tests/unit/base/test_harness_verdict.py, which holds the
installed harness's verdicts for `pairs()`. The same seed gives the same pairs everywhere:
only `random.Random.random` is drawn from.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

PAIRS = 10_000
SEED = 7

_GOLDS = (
    "{a}", "-{a}", "0{a}", "{a}.0", "{a},{b}00", r"{a}{{,}}{b}00", "0.5", ".5", ".{a}", "{a}.{b}",
    r"\frac{{{a}}}{{{b}}}", r"\frac{a}{b}", r"\dfrac{{{a}}}{{{b}}}", r"\tfrac{a}{{{b}}}", "{a}/{b}",
    "-{a}/{b}", "{a}/0{b}", "{v}/{b}", "{a}/{b}/{c}", r"\sqrt{a}", r"\sqrt{{{a}}}", r"{a}\sqrt {b}",
    r"\sqrt[3]{{{a}}}", "{v}={a}", "{v} = {a}", "{v}{v}={a}", "f({v})={a}", "{v}=={a}",
    r"{a}^\circ",
    r"{a}^{{\circ}}", r"{a}\%", "{a}%", r"\${a}", r"{a}\text{{ cm}}", r"{a}\text{{cm}}",
    r"{a}\text{{ cm}}\text{{ or so}}", r"\text{{ (A)}}", r"\text{{Friday}}", "({a},{b})",
    r"\left({a},\,{b}\right)", r"\left[{a}, {b}\right)", "{a},{b}", "{b}, {a}", r"{a}\!{b}",
    r"\begin{{pmatrix}}{a}\\{b}\end{{pmatrix}}", r"{v}^{{{a}}}+{b}", "{v}^{a} + {b}", r"{a}\pi",
    r"{a}\pi\,", r"\pm {a}", r"{a}\cdot {b}", r"{a} .{b}", r"{{.{a}}}", r"\frac", r"\frac{a}",
    r"\sqrt", "{a}_{b}", r"\infty", r"{a}\leftarrow {b}", "", " ", "=", "{v}=", "/", "{a}/",
)  # fmt: skip
_FORMS = (
    r"So \boxed{{{x}}}.", r"$\boxed{{{x}}}$", r"\[ \boxed{{{x}}} \]", r"\boxed {x}",
    r"$\boxed {x}$ it is", r"\fbox{{{x}}}", r"\boxed{{{y}}}, no, \boxed{{{x}}}", "{x}",
    "It is ${x}$.",
    "${y}$ and then ${x}$", r"\boxed in prose, then \boxed{{{x}}}", r"\boxed{{{x}",
    r"\boxed{{{x}}}}}",
    r"}} first, \boxed{{{x}}}", r"\boxed{{\boxed{{{x}}}}}", r"\boxed{{\text{{{x}}}}}", r"\boxed{x}",
    r"$\boxed{{{x}}}$ costs $", r"\boxed{{{x}}} \boxed", "\\boxed{{\n{x}\n}}",
)  # fmt: skip
_PIECES = (
    r"\boxed{", r"\boxed ", r"\frac{", r"\frac", r"\sqrt", r"\sqrt[", r"\text{", r"\pm", r"\cup",
    r"\{", r"\}", r"\left(", r"\right)", r"\begin{pmatrix}", r"\end{pmatrix}", r"\\", "&", "10^{9}",
    "^{", "^", "_", "}", "}", "}", "(", ")", "[", "]", "|", ",", "1", "23", "0.", "007", "9" * 70,
    "x", "y", "e", "i", "n!", "!", "=", "<", ">", r"\le", "/", "-", "+", "*", " ", "$", "%",
    r"\sin ",
    r"\log_2", r"\ln", r"\binom{9}{4}", r"\pi", r"\infty", "^\\circ", "<think>", "</think>", "\0",
    "é", "٣", "½", "−", "\n", "e^{e^{", "7^(7^(7^7))", r"\lfloor ", r"\rfloor", "and ", "sum",
)  # fmt: skip


class _Draw:
    """Choices that depend on the seed alone."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def one(self, items: Sequence[str]) -> str:
        return items[self.below(len(items))]

    def filled(self, template: str) -> str:
        a, b, c = (str(1 + self.below(9 if self.below(2) else 99)) for _ in range(3))
        return template.format(a=a, b=b, c=c, v=self.one("xyk"))


def pairs(count: int = PAIRS, seed: int = SEED) -> list[tuple[str, str]]:
    """(reply, gold) pairs: the gold, another spelling of it or another answer, in many forms."""
    draw = _Draw(seed)
    made = []
    for _ in range(count):
        gold = draw.filled(draw.one(_GOLDS))
        answer = _varied(draw, gold) if draw.below(4) else draw.filled(draw.one(_GOLDS))
        other = draw.filled(draw.one(_GOLDS))
        form = draw.one(_FORMS) if draw.below(2) else _FORMS[0]
        made.append((form.format(x=answer, y=other), gold))
    return made


_SPELLINGS = (
    ("frac", "dfrac"), (r"\dfrac", r"\frac"), (" ", ""), (",", ", "), ("{", ""),
    ("\\text{ ", "\\text{"),
    ("=", " = "), (".0", ""), ("^\\circ", ""), ("\\%", "%"), ("(", "\\left("),
    ("\\sqrt", "\\sqrt "),
    ("0.5", "1/2"), (".", "0."), ("+", " + "), ("\\!", ""), ("/", " / "), ("\\", "\\\\"),
)  # fmt: skip


def _varied(draw: _Draw, text: str) -> str:
    for _ in range(draw.below(3)):
        old, new = _SPELLINGS[draw.below(len(_SPELLINGS))]
        text = text.replace(old, new)
    return text


def hostile(count: int = PAIRS, seed: int = SEED) -> list[tuple[str, str]]:
    """(reply, gold) pairs made of pieces of LaTeX in no order; most replies hold a box."""
    draw = _Draw(seed)
    made = []
    for _ in range(count):
        body = "".join(draw.one(_PIECES) for _ in range(1 + draw.below(14)))
        gold = draw.filled(draw.one(_GOLDS)) if draw.below(3) else draw.one(_PIECES)
        made.append((f"\\boxed{{{body}}}" if draw.below(5) else body, gold))
    return made
