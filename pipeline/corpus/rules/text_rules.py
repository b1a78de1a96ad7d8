r"""Rules on wording: what is missing, broken off, too short or long, or not English.

Called by catalogue.py; reads and writes nothing. Each takes a row and the settings and gives
the detail that speaks against the row, or None.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pipeline.corpus.rows.schemas import Candidate
from pipeline.corpus.rules.language import foreign
from pipeline.corpus.rules.latex_health import broken_latex, html_remains
from pipeline.corpus.rules.repetition import loop_in
from pipeline.corpus.rules.residue import damaged_characters, placeholder, refusal
from pipeline.corpus.rules.settings import Settings


def _texts(row: Candidate) -> tuple[tuple[str, str], ...]:
    return (("problem", row.problem), ("reasoning", row.thinking), ("reply", row.solution))


def _in_any(row: Candidate, find: Callable[[str], str | None]) -> str | None:
    """What `find` says of the first part of the row in which it finds something."""
    for field, text in _texts(row):
        found = find(text) if text else None
        if found is not None:
            return f"{found} in the {field}"
    return None


def no_problem(row: Candidate, _: Settings) -> str | None:
    """Nothing is asked."""
    return None if row.problem else "the problem is empty"


def no_solution(row: Candidate, _: Settings) -> str | None:
    """Nothing is said."""
    return None if row.solution or row.thinking else "no reply to learn from"


def nothing_after_thinking(row: Candidate, _: Settings) -> str | None:
    """No visible reply follows the reasoning."""
    return None if row.solution else f"{len(row.thinking)} characters of reasoning, then nothing"


_THINK_TAG = re.compile(r"</?think>")
_BREAKS_OFF = re.compile(
    r"(?:[,=+(\[{&]|\\|\b(?:the|an|of|to|and|with|from|because|which|where|for|is|are))\Z"
)
ENDING_CHARACTERS = 200
LONG_REASONING = 500
"""Characters; reasoning of such length ends its last sentence with a mark, unless that
sentence states the answer. Of 282 honest ones none ended in a letter, of cut ones 88 %."""
MIN_BLANKS_OF_SENTENCE = 4


def unfinished_thinking(row: Candidate, _: Settings) -> str | None:
    """Think tags are left over, or the reasoning ends in mid-sentence."""
    for field, text in _texts(row)[1:]:
        if "think>" in text and (tag := _THINK_TAG.search(text)) is not None:
            return f"{tag.group()} in the {field}"
    ending = row.thinking[-ENDING_CHARACTERS:].rstrip()
    line = ending.rpartition("\n")[2]
    in_sentence = (
        len(row.thinking) >= LONG_REASONING
        and line[-1:].islower()
        and line.count(" ") >= MIN_BLANKS_OF_SENTENCE
        and row.gold not in line
    )
    if in_sentence or _BREAKS_OFF.search(line) is not None:
        return f"the reasoning breaks off: {line[-40:]!r}"
    return None


def special_token(row: Candidate, settings: Settings) -> str | None:
    """The tokenizer would read text as one of its control tokens."""
    for field, text in _texts(row):
        for opening in settings.openings:
            if opening[:1] in text and opening in text:
                found = settings.markup.search(text)
                if found is not None:
                    return f"{found.group()} in the {field}"
                break
    return None


def too_short(row: Candidate, settings: Settings) -> str | None:
    """Less text than the least that is wanted."""
    length = len(row.thinking) + len(row.solution)
    least = settings.filter.min_solution_characters
    return None if length >= least else f"{length} characters, {least} are wanted"


def too_long(row: Candidate, settings: Settings) -> str | None:
    """More text than is allowed."""
    length = len(row.thinking) + len(row.solution)
    most = settings.filter.max_reply_characters
    return f"{length} characters, {most} are allowed" if most and length > most else None


def repetition_loop(row: Candidate, settings: Settings) -> str | None:
    """Reasoning or reply runs in circles."""
    share = settings.filter.max_repetition_share
    return loop_in(row.thinking, share) or loop_in(row.solution, share)


def not_english(row: Candidate, settings: Settings) -> str | None:
    """A sentence or more is in another language."""
    return _in_any(row, foreign) if settings.filter.english_only else None


def refusing(row: Candidate, _: Settings) -> str | None:
    """The reply declines to answer."""
    return refusal(row.solution)


def unfilled(row: Candidate, _: Settings) -> str | None:
    """A template was not filled in."""
    return _in_any(row, placeholder)


def mojibake(row: Candidate, _: Settings) -> str | None:
    """Characters were lost or wrongly decoded."""
    return _in_any(row, damaged_characters)


def rendered(row: Candidate, _: Settings) -> str | None:
    """The text was copied from a rendered page."""
    return _in_any(row, html_remains)


def damaged_latex(row: Candidate, _: Settings) -> str | None:
    """The LaTeX is damaged beyond an oversight."""
    return _in_any(row, broken_latex)
