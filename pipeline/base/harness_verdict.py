r"""The verdicts of lm-evaluation-harness for MATH-style answers, reproduced exactly.

Called by policies.py; reads and writes nothing. It answers as that project's AIME task
does: the box found by its rules, its string clean-up, then string equality. The task's
oddities are kept on purpose, since published scores hold them: `\boxed 5` beats every
braced box, `\fbox` is not opened, a reply without a box is compared as a whole, and a
string that the clean-up cannot handle is compared as it stands. bench/grading.py compares
with the installed package, tests/unit/base/test_harness_verdict.py with its recorded
verdicts. docs/grading.md says when to use which policy.
"""

from __future__ import annotations

import re

_BARE_BOX = "\\boxed "
_OPEN_BOX = "\\boxed{"
_UNIT = "\\text{ "


class _Unhandled(Exception):
    """The clean-up stumbles where the original raises; the raw strings decide."""


def harness_box(text: str) -> str | None:
    r"""Content of the box that the harness reads, or None if it finds none it can open.

    Any `\boxed` followed by a blank wins and runs to the next dollar sign; otherwise the
    last `\boxed` counts, from its first brace to that brace's partner.
    """
    if _BARE_BOX in text:
        return text.rpartition(_BARE_BOX)[2].partition("$")[0]
    start = text.rfind("\\boxed")
    if start < 0 or not text.startswith(_OPEN_BOX, start):
        return None
    depth = 0
    for brace in re.compile("[{}]").finditer(text, start):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return text[start + len(_OPEN_BOX) : brace.start()]
    return None


def harness_answer(text: str) -> str:
    """What the harness compares: the box, else all between first and last dollar, else all."""
    box = harness_box(text)
    if box is not None:
        return box
    first, last = text.find("$"), text.rfind("$")
    return text[first + 1 : last] if first < last else text


def harness_equal(answer: str, gold: str) -> bool:
    """Whether the harness calls two answers equal."""
    try:
        return harness_form(answer) == harness_form(gold)
    except _Unhandled:
        return answer == gold


_FIRST_REMOVALS = (
    ("\n", ""), ("\\!", ""), ("\\\\", "\\"), ("tfrac", "frac"), ("dfrac", "frac"),
    ("\\left", ""), ("\\right", ""), ("^{\\circ}", ""), ("^\\circ", ""), ("\\$", ""),
)  # fmt: skip
_SECOND_REMOVALS = (("\\%", ""), (" .", " 0."), ("{.", "{0."))


def harness_form(text: str) -> str:
    """The harness's clean form of an answer.

    Raises:
        _Unhandled: the original fails on this text.
    """
    for old, new in _FIRST_REMOVALS:
        text = text.replace(old, new)
    pieces = text.split(_UNIT)
    if len(pieces) > 2:
        raise _Unhandled
    text = pieces[0]
    for old, new in _SECOND_REMOVALS:
        text = text.replace(old, new)
    if not text:
        return text
    if text[0] == ".":
        text = "0" + text
    sides = text.split("=")
    if len(sides) == 2 and len(sides[0]) <= 2:
        text = sides[1]
    text = _braced_fractions(_braced_roots(text).replace(" ", ""))
    return _plain_ratio("\\frac{1}{2}" if text == "0.5" else text)


def _braced_roots(text: str) -> str:
    head, *rest = text.split("\\sqrt")
    if "" in rest:
        raise _Unhandled
    return head + "".join(
        "\\sqrt" + (part if part[0] == "{" else f"{{{part[0]}}}{part[1:]}") for part in rest
    )


def _braced_fractions(text: str) -> str:
    r"""`\frac12` with braces; one digit or letter each, as the original has it."""
    head, *rest = text.split("\\frac")
    done = [head]
    for part in rest:
        if not part:
            raise _Unhandled
        if part[0] != "{":
            if len(part) < 2:
                return text
            low = part[1] if part[1] == "{" else f"{{{part[1]}}}"
            part = f"{{{part[0]}}}{low}{part[2:]}"
        done.append("\\frac" + part)
    return "".join(done)


def _plain_ratio(text: str) -> str:
    """`a/b` of two plain integers as a fraction.

    The original fails on one slash between anything else, so the raw strings decide there.
    """
    sides = text.split("/")
    if len(sides) != 2:
        return text
    try:
        top, low = int(sides[0]), int(sides[1])
        plain = f"{top}/{low}"
    except ValueError as not_integers:
        raise _Unhandled from not_integers
    return f"\\frac{{{top}}}{{{low}}}" if text == plain else text
