"""The ways in which a protected problem turns up in real training data.

Called by `bench.corpus_rows`; each kind must be found by a good screen, `edited` included, whose
numbers are no longer those of the original.
"""

from __future__ import annotations

import random
import re

from bench.corpus_seeds import change_numbers

KINDS = ("verbatim", "respaced", "recased", "embedded", "edited")

_MATH = re.compile(r"\$[^$]+\$|\\\[.+?\\\]", re.DOTALL)
_OPERATOR = re.compile(r"\s*(?<![\\{^_])([=+<>]|(?<=[\w})])-)\s*")


def plant(problem: str, kind: str, around: list[str], chance: random.Random) -> str | None:
    """The problem as `kind` has it; None where that would leave it as it is.

    Args:
        around: two sentences of other problems, for `embedded`.
    """
    text = {
        "verbatim": lambda: problem,
        "respaced": lambda: respaced(problem),
        "recased": lambda: recased(problem),
        "embedded": lambda: embedded(problem, around),
        "edited": lambda: change_numbers(problem, chance),
    }[kind]()
    return text if kind == "verbatim" or text != problem else None


def respaced(problem: str) -> str:
    r"""Formulas set anew: blanks at operators, `\dfrac`, `\left(`; numbers in dollars."""
    if _MATH.search(problem) is None:
        return re.sub(r"(?<![\w$.,])(\d+)(?![\w%.,/])", r"$\1$", problem).replace(". ", ".\n")

    def formula(found: re.Match[str]) -> str:
        text = _OPERATOR.sub(r" \1 ", found[0]).replace("\\frac", "\\dfrac")
        text = re.sub(r"(?<!\\left)\((?=[^()]*\))", r"\\left(", text)
        return re.sub(r"\\left\(([^()]*)\)", r"\\left(\1\\right)", text).replace(", ", ",\\, ")

    return _MATH.sub(formula, problem).replace(". ", ".\n")


def recased(problem: str) -> str:
    """Small letters outside formulas, commas gone, other marks at the ends of sentences."""

    def plain(text: str) -> str:
        text = re.sub(r",(?=\s)", "", text.lower())
        return re.sub(r"[.?!](?=\s|$)", ";", text).replace("'", "’")

    parts = []
    start = 0
    for found in _MATH.finditer(problem):
        parts += [plain(problem[start : found.start()]), found[0]]
        start = found.end()
    return "".join([*parts, plain(problem[start:])])


def embedded(problem: str, around: list[str]) -> str:
    """The problem in the middle of a longer text."""
    return f"{around[0]} Leave that aside for now.\n\n{problem}\n\nAfterwards recall: {around[1]}"
