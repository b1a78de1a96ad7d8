r"""What machines leave in texts: damaged characters, unfilled templates, refusals.

Called by catalogue.py; reads and writes nothing. Each function says what it found, or None.
"""

from __future__ import annotations

import re

from pipeline.corpus.rows.text import beyond_ascii

REFUSAL_CHARACTERS = 300
"""A refusal opens a reply; later on the same words are part of an argument."""

_MOJIBAKE = re.compile(
    "Ã[\u0080-\u00bf\u0192\u2020\u2021\u2030\u0160\u0152\u017d]|â€[\u0098-\u00a6\u2122\u0153\u02dc]?"
    "|Â[\u00a0-\u00bf]|ï¿½|â(?:ˆ|‰)[\u0080-\u00bf\u0161\u2019\u2022¥¤]"
)
_PLACEHOLDER = re.compile(
    r"(?<![\\{^_A-Za-z\]}])\{\{[A-Za-z][A-Za-z_]{2,30}\}\}(?!\})"
    r"|\[(?:Your|Insert)\b[^\[\]\n]{0,40}\](?!\()"
    r"|<(?:your|insert)[ _-](?:answer|name|text|solution|value|number|reasoning)[^<>\n]{0,20}>"
    r"|\b(?:YOUR|INSERT)[ _](?:ANSWER|SOLUTION|TEXT|REASONING)(?:[ _]HERE)?\b"
)
_OPENINGS = (("{", ("{{",)), ("[", ("[Your", "[Insert")), ("<", ("<your", "<insert")))
_OPENING = "_HERE"
_DO = r"(?:help|assist|answer|solve|provide|comply|fulfil|create|display|perform|access|give|do)"
_REFUSAL = re.compile(
    r"\bI(?:'m|’m| am) (?:very |so |really )?sorry,? but\b.{0,60}\b"
    rf"(?:can(?:not|'t|’t)|unable to) {_DO}"
    rf"|\bI(?:'m|’m| am) (?:unable|not able) to {_DO}\b"
    r"|\bI (?:cannot|can't|can’t|won't|won’t) (?:help (?:you )?with|assist|comply|fulfil"
    r"|answer (?:this|that)|provide (?:an answer|a solution|assistance))"
    r"|\bAs an? (?:AI|artificial intelligence)\b.{0,30}\bI(?:'m|’m)? "
    r"(?:cannot|can't|can’t|do not|don't|don’t|am not|am unable|not able|unable)"
)


def damaged_characters(text: str) -> str | None:
    """Replacement characters, and UTF-8 that was read in another encoding."""
    if text.isascii():
        return None
    strange = beyond_ascii(text)
    lost = strange.count("\ufffd")
    if lost:
        return f"{lost} replacement characters (U+FFFD)"
    if _MOJIBAKE.search(strange) is None:
        return None
    found = _MOJIBAKE.search(text)  # they may stand apart there
    return f"wrongly decoded text: {found.group()!r}" if found is not None else None


def _may_hold_placeholder(text: str) -> bool:
    for sign, openings in _OPENINGS:
        if sign in text:
            for opening in openings:
                if opening in text:
                    return True
    return "_" in text and _OPENING in text


def placeholder(text: str) -> str | None:
    """A template's field that nobody filled in: `{{name}}`, `[Your answer]`."""
    if not _may_hold_placeholder(text):
        return None
    found = _PLACEHOLDER.search(text)
    return found.group() if found is not None else None


def refusal(reply: str) -> str | None:
    """The words with which a reply declines to answer."""
    head = reply[:REFUSAL_CHARACTERS]
    if "I" not in head:  # every form says who declines
        return None
    found = _REFUSAL.search(head)
    return found.group() if found is not None else None
