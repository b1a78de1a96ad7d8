r"""Is a reply right? Takes the answer from its last `\boxed{}` and compares it with the gold.

Pure and torch-free: the filter stage grades the traces' own solutions with it,
baseline and evaluate grade what the model wrote. Nothing here raises and nothing
is evaluated beyond bounded literals, so a hostile reply costs a pass over its
text and no more. What counts as equal is in answers.py; every choice on which
graders differ is written down in docs/grading.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.base.answers import integer_of, is_readable, normalise_answer, same_answer

__all__ = [
    "Verdict",
    "after_thinking",
    "grade",
    "is_readable_gold",
    "last_boxed",
    "normalise_answer",
    "unbox",
]

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"

REASONS = (
    "match-exact",
    "match-normalised",
    "match-numeric",
    "match-symbolic",
    "mismatch",
    "no-box",
    "unclosed-box",
    "empty-box",
    "truncated",
    "timeout",
    "unreadable-gold",
)
"""Every code that `Verdict.reason` can take; docs/grading.md says what each means."""

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*(?P<brace>\{)?")
_BARE = re.compile(r"[-+]?(?:\d|\.\d+|\\[dt]?frac[ ]?)[^\s$]{0,60}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a reply is right, by which rule, and what was read as its answer."""

    correct: bool
    reason: str
    answer: str
    """Content of the box that was graded; empty if there was none."""


def after_thinking(reply: str) -> str:
    """The visible part of a reply: what follows the last closing think tag.

    Empty when a think block is opened and not closed, since no answer was given.
    """
    _, tag, visible = reply.rpartition(THINK_CLOSE)
    text = visible if tag else reply
    return "" if THINK_OPEN in text else text


def unfinished_thinking(reply: str) -> bool:
    """Whether a reply ends inside a thinking block."""
    return reply.rfind(THINK_OPEN) > reply.rfind(THINK_CLOSE)


def _closing_braces(text: str) -> dict[int, int]:
    """Position of every opening brace that is closed → position of its partner.

    One pass; an escaped brace (`\\{`) is a character like any other.
    """
    partners: dict[int, int] = {}
    opened: list[int] = []
    for token in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        if token.group() == "{":
            opened.append(token.start())
        elif token.group() == "}" and opened:
            partners[opened.pop()] = token.start()
    return partners


def _spans(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Where the boxes' contents lie, in order of their start; whether one was left open.

    The form without braces (`\\boxed 2`) counts only where no braced box is closed.
    """
    found: list[tuple[int, int]] = []
    bare: list[tuple[int, int]] = []
    unclosed = False
    partners: dict[int, int] | None = None
    for box in _BOX.finditer(text):
        if box["brace"] is None:
            number = _BARE.match(text, box.end())
            if number is not None:
                bare.append(
                    (number.start(), number.start() + len(number.group().rstrip(".,;:!?)")))
                )
            continue
        if partners is None:
            partners = _closing_braces(text)
        end = partners.get(box.end() - 1)
        if end is None:
            unclosed = True
        else:
            found.append((box.end(), end))
    return found or bare, unclosed


def _last_filled(text: str, spans: list[tuple[int, int]]) -> str | None:
    contents = (text[start:end].strip() for start, end in reversed(spans))
    return next((content for content in contents if content), None)


def last_boxed(text: str) -> str | None:
    r"""Content of the last balanced, filled `\boxed{}` or `\fbox{}`; None if there is none."""
    return _last_filled(text, _spans(text)[0])


def unbox(gold: str) -> str:
    """A gold as data sets print it: its box's content if it has one, stripped."""
    boxed = last_boxed(gold)
    return gold.strip() if boxed is None else boxed


def is_readable_gold(gold: str) -> bool:
    """Whether a gold can be matched at all: not empty, braces balanced."""
    return is_readable(unbox(gold))


def grade(reply: str, gold: str, *, truncated: bool = False, integer: bool = False) -> Verdict:
    r"""Grade one reply by the policy `strict`; policies.py has the others.

    Args:
        reply: what the model wrote, thinking included.
        gold: the right answer, with or without its own box.
        truncated: the token limit ended the reply; with a finished box it is
            graded all the same.
        integer: the task's answers are integers (AIME): a gold that is none is
            unreadable, an answer that is none is wrong.
    """
    expected = unbox(gold)
    if not is_readable(expected) or (integer and integer_of(expected) is None):
        return Verdict(False, "unreadable-gold", last_boxed(after_thinking(reply)) or "")
    if unfinished_thinking(reply):
        return Verdict(False, "truncated", "")
    visible = after_thinking(reply)
    boxes, unclosed = _spans(visible)
    answer = _last_filled(visible, boxes)
    if answer is not None:
        rule = same_answer(answer, expected)
        if integer and integer_of(answer) != integer_of(expected):
            rule = None
        return Verdict(rule is not None, rule or "mismatch", answer)
    if truncated:
        return Verdict(False, "truncated", "")
    if unclosed:
        return Verdict(False, "unclosed-box", "")
    return Verdict(False, "empty-box" if boxes else "no-box", "")
