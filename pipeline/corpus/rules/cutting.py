r"""Cuts what a reply says after its final answer.

Called by catalogue.py; reads and writes nothing. A model that is trained on text after the
box learns not to stop at its answer. The sentence, line or display that holds the last
box stays whole, with its closing marks; only prose behind it goes.
"""

from __future__ import annotations

import re

from pipeline.base.latex import matching_brace
from pipeline.corpus.rules.boxes import last_box_start

_PAIRS = (("\\[", "\\]"), ("\\(", "\\)"))
_MARKS = re.compile(
    r"(?:\s*(?:\\[\])]|\\end\{[A-Za-z]{1,20}\*?\}|</(?!think)[A-Za-z]{1,12}>|\[/[A-Za-z]{1,12}\])"
    r"|[$*`_.,;:!?)\]}'\"”’]){1,40}"
)
"""Closing marks; those that open and close alike only where no blank parts them."""
_SENTENCE_END = re.compile(
    r"\n|[.!?](?<!\bM[rs].)(?<!\bMrs.)(?<!\b[DJS]r.)(?<!\bSt.)(?<!\bvs.)"
    r"[\"')\]*$”’]{0,4}(?=\s+[^a-z\s]|\s*\Z)"
)
_ENDED = re.compile(r"[.!?](?:[\s\"'$*)\]}”’]|\\[\])]){0,12}\Z")
"""A full stop within the formula of the box ends the sentence too."""
_BEGINS = re.compile(r"[\sA-Z]")
_MORE = ("boxed", "\\fbox", "think>")
_WORD = re.compile(r"[A-Za-z]{2}|\d")
_ENVIRONMENT_END = re.compile(r"\\end\{[^{}]{1,20}\}")


def _is_open(text: str, mark: str, stop: int) -> bool:
    """Whether a mark that opens and closes alike stands open at `stop`."""
    return text.count(mark, 0, stop) % 2 == 1


def _in_line_formula(text: str, stop: int) -> bool:
    start = text.rfind("\n", 0, stop) + 1
    return (text.count("$", start, stop) - text.count("\\$", start, stop)) % 2 == 1


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def _after(text: str, mark: str, place: int) -> int | None:
    found = text.find(mark, place)
    return None if found < 0 else found + len(mark)


def _display_end(reply: str, start: int, end: int) -> int | None:
    """Where the formula, environment or code around the box ends; None if it never does."""
    ends: list[int | None] = [end]
    for opening, closing in _PAIRS:
        if reply.rfind(opening, 0, start) > reply.rfind(closing, 0, start):
            ends.append(_after(reply, closing, end))
    if _is_open(reply, "$$", start):
        ends.append(_after(reply, "$$", end))
    elif _in_line_formula(reply, start):
        closing_mark = reply.find("$", end)  # without one in the line it is a currency
        ends.append(closing_mark + 1 if closing_mark in range(end, _line_end(reply, end)) else end)
    if _is_open(reply, "```", start):
        ends.append(_after(reply, "```", end))
    opened = reply.count("\\begin{", 0, start) - reply.count("\\end{", 0, start)
    place = end
    for _ in range(max(opened, 0)):
        closing_tag = _ENVIRONMENT_END.search(reply, place)
        if closing_tag is None:
            return None
        place = closing_tag.end()
    known = [one for one in (*ends, place) if one is not None]
    return max(known) if len(known) == len(ends) + 1 else None


def _past_marks(reply: str, place: int) -> int:
    marks = _MARKS.match(reply, place)
    return place if marks is None else marks.end()


def answer_end(reply: str) -> int | None:
    """Where the sentence or display that holds the last box ends.

    None without a closed box, or if the formula around it is never closed.
    """
    start = last_box_start(reply)
    brace = reply.find("{", start) if start >= 0 else -1
    if brace < 0 or reply[start + 1 : brace].strip() not in ("boxed", "fbox"):
        return None
    close = matching_brace(reply, brace)
    display = _display_end(reply, start, close + 1) if close > 0 else None
    if display is None:
        return None
    closed = _past_marks(reply, display)
    if _ENDED.search(reply, close + 1, closed) is not None and _BEGINS.match(reply, closed):
        return closed
    sentence = _SENTENCE_END.search(reply, display)
    end = sentence.end() if sentence is not None else len(reply)
    return _past_marks(reply, max(end, closed))


def after_answer(reply: str) -> int | None:
    """The place after which a reply may be cut; None if nothing there is prose to cut.

    What follows stays when it boxes something, holds think tags, or has no word.
    """
    end = answer_end(reply)
    if end is None or _WORD.search(reply, end) is None:
        return None
    return None if any(reply.find(sign, end) >= 0 for sign in _MORE) else end
