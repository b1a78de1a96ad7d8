r"""Cuts what a reply says after its final answer.

Called by rules.py; reads and writes nothing. A model that is trained on text after the
box learns not to stop at its answer. The sentence, line or display that holds the last
box stays whole, with its closing marks; only prose behind it goes.
"""

from __future__ import annotations

import re

from pipeline.base.latex import matching_brace
from pipeline.corpus.boxes import last_box_start

_PAIRS = (("\\[", "\\]"), ("\\(", "\\)"))
_MARKS = re.compile(
    r"(?:\s*(?:\\[\])]|\\end\{[A-Za-z]{1,20}\*?\}|</(?!think)[A-Za-z]{1,12}>|\[/[A-Za-z]{1,12}\])"
    r"|[$*`_.,;:!?)\]}'\"”’])+"
)
"""Closing marks; those that open and close alike only where no blank parts them."""
_SENTENCE_END = re.compile(r"\n|[.!?][\"')\]*$”’]{0,4}(?=\s+[^a-z\s]|\s*\Z)")
_MORE = re.compile(r"\\?boxed|\\fbox|think>")
_WORD = re.compile(r"[A-Za-z]{2}|\d")
_ENVIRONMENT_END = re.compile(r"\\end\{[^{}]{1,20}\}")


def _is_open(text: str, start: int, mark: str) -> bool:
    """Whether a mark that opens and closes alike stands open before `start`."""
    return (text.count(mark, 0, start) - text.count("\\" + mark, 0, start)) % 2 == 1


def _after(text: str, mark: str, place: int) -> int | None:
    found = text.find(mark, place)
    return None if found < 0 else found + len(mark)


def _display_end(reply: str, start: int, end: int) -> int | None:
    """Where the formula, environment or code around the box ends; None if it never does."""
    ends: list[int | None] = [end]
    for opening, closing in _PAIRS:
        if reply.rfind(opening, 0, start) > reply.rfind(closing, 0, start):
            ends.append(_after(reply, closing, end))
    mark = next((one for one in ("$$", "$") if _is_open(reply, start, one)), None)
    if mark is not None:
        ends.append(_after(reply, mark, end))
    if _is_open(reply, start, "```"):
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
    sentence = _SENTENCE_END.search(reply, display)
    end = sentence.end() if sentence is not None else len(reply)
    return _past_marks(reply, max(end, _past_marks(reply, display)))


def after_answer(reply: str) -> int | None:
    """The place after which a reply may be cut; None if nothing there is prose to cut.

    What follows stays when it boxes something, holds think tags, or has no word.
    """
    end = answer_end(reply)
    if end is None or _WORD.search(reply, end) is None or _MORE.search(reply, end) is not None:
        return None
    return end
