r"""Rules on answers: labels, the gold, the boxes, and whether they agree.

Called by catalogue.py; reads and writes nothing. Each takes a row and the settings and gives
the detail that speaks against the row, or None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.base.grading import is_readable_gold
from pipeline.corpus.rows.schemas import Candidate
from pipeline.corpus.rows.text import excerpt_of
from pipeline.corpus.rules.boxes import answer_in, boxed_answers, final_answer, grade_reply
from pipeline.corpus.rules.settings import Settings


def labelled_wrong(row: Candidate, _: Settings) -> str | None:
    """The source's own check found the reply wrong."""
    return "the row marks its reply as wrong" if row.verified == "wrong" else None


def labelled_unverifiable(row: Candidate, _: Settings) -> str | None:
    """The source's own check came to no result."""
    return "the row's check gave no result" if row.verified == "unverifiable" else None


def no_box(row: Candidate, _: Settings) -> str | None:
    """The visible reply holds no filled box."""
    if answer_in(row.solution) is not None:
        return None
    return f"the reply ends {excerpt_of(row.solution[-40:].strip())!r}"


def no_gold(row: Candidate, _: Settings) -> str | None:
    """Nothing states the answer."""
    return None if row.gold else f"no field states the answer; schema {row.schema}"


def unreadable_gold(row: Candidate, _: Settings) -> str | None:
    """The answer cannot be compared with anything."""
    if row.gold.isdigit() or is_readable_gold(row.gold):
        return None
    return f"gold {excerpt_of(row.gold)!r}"


_COMMAND = re.compile(
    r"\\(?:text|mathrm|mathbb|mbox|operatorname|textbf|mathbf)\s*\{[^{}]*\}|\\[A-Za-z]+"
)
_SYMBOL = re.compile(r"(?<![A-Za-z.])[A-Za-z](?![A-Za-z.])")
_UNIT = re.compile(r"(?<=[\d}])(?:\s|~|\\,)+[A-Za-z](?![A-Za-z])")
COMMON_SYMBOLS = frozenset("eixyzC")
"""Need no introduction: constants, coordinates, a constant of integration."""


def _formulas(text: str) -> Iterator[str]:
    yield from text.split("$")[1::2]
    for opening, closing in (("\\[", "\\]"), ("\\(", "\\)")):
        start = text.find(opening)
        while start >= 0 and (end := text.find(closing, start)) >= 0:
            yield text[start:end]
            start = text.find(opening, end)


def gold_symbols(row: Candidate, _: Settings) -> str | None:
    """The stated answer speaks of what the problem does not introduce."""
    if row.gold_from != "stated" or row.gold.isdigit():
        return None
    gold = _COMMAND.sub(" ", _UNIT.sub(" ", row.gold))
    symbols = set(_SYMBOL.findall(gold)) - COMMON_SYMBOLS
    if not symbols or gold.upper() == gold:
        return None
    problem = _COMMAND.sub(" ", row.problem)
    known = set(_SYMBOL.findall(problem)).union(*_formulas(problem))
    unknown = symbols - known
    return f"{', '.join(sorted(unknown))} in gold {excerpt_of(row.gold)!r}" if unknown else None


MAX_BOX_WORDS = 12
"""Words of three letters or more; answers in words have fewer."""
_BOX_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")


def prose_box(row: Candidate, _: Settings) -> str | None:
    """The box holds sentences."""
    answer = answer_in(row.solution) or ""
    words = len(_BOX_WORD.findall(answer))
    return f"{words} words in the box: {excerpt_of(answer)!r}" if words > MAX_BOX_WORDS else None


def several_boxes(row: Candidate, _: Settings) -> str | None:
    """The boxes contradict each other."""
    if row.solution.count("\\boxed") < 2:
        return None
    boxes = boxed_answers(row.solution)
    for other in dict.fromkeys(boxes[:-1]):  # in their order, for the same words in every run
        if other == boxes[-1] or f"\\boxed{{{other}}}" in row.problem:
            continue  # said again, or the question repeated
        if not grade_reply(f"\\boxed{{{other}}}", boxes[-1]).correct:
            return f"{excerpt_of(other)!r} and {excerpt_of(boxes[-1])!r}"
    return None


def wrong_answer(row: Candidate, _: Settings) -> str | None:
    """The last box is not the stated answer."""
    if final_answer(row.solution) == row.gold:
        return None  # as `grade` would say of a gold that another rule found readable
    verdict = grade_reply(row.solution, row.gold)
    if verdict.correct:
        return None
    return f"{verdict.reason}: {excerpt_of(verdict.answer)!r}, gold {excerpt_of(row.gold)!r}"
