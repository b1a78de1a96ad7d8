r"""Is the LaTeX of a text whole? Finds damage of a degree that no honest text shows.

Called by catalogue.py; reads and writes nothing. A forgotten dollar sign or brace is
common and teaches little; what counts here is text that was cut, escaped twice, glued
together or copied from a rendered page. The bounds lie beyond everything seen in
19,000 real replies (docs/quality.md).
"""

from __future__ import annotations

import re

MAX_BACKSLASH_SHARE = 0.25
"""Of all characters, in texts of `MIN_BACKSLASHES` or more."""
MIN_BACKSLASHES = 200
MAX_FOURFOLD = 4
"""Places with four backslashes in a row: a line break that was escaped again."""
MAX_OPEN_BRACES = 8
"""Braces without a partner, if they are also `MAX_OPEN_SHARE` of all."""
MAX_OPEN_SHARE = 0.2
MAX_OPEN_ENVIRONMENTS = 2
MIN_TAGS = 3
"""Tags and entities of rendered formulas: one may be meant, several are remains of a page."""

_NAMES = ("frac", "sqrt", "cdot", "times", "text", "left")
"""Commands that follow a line break of matrices seldom; doubled ones were escaped again."""
_FRACTIONS = re.compile(r"(?:\\[dtc]?frac\s{0,2}){3}|(?:\\[dtc]?frac\s{0,2}\{\s{0,2}){8}")
_HTML = re.compile(
    r"</?(?:math|mrow|mi|mo|mn|msup|mfrac|semantics|annotation|mjx-[a-z]{1,20})\b[^<>]{0,200}>"
    r"|<(?:span|div|img)\s[^<>]{0,100}\b(?:katex|mathjax|mjx|math|latex|tex)\b[^<>]{0,200}>"
    r"|&(?:nbsp|lt|gt|le|ge|times|radic|minus|pi|sup[23]|#\d{2,5});",
    re.IGNORECASE,
)
_SIGNS_OF_HTML = (
    ("&", ("&nbsp", "&lt;", "&gt;", "&#", "&times")),
    ("<", ("</m", "<span", "<div", "<img")),
)


def _backslashes(text: str) -> str | None:
    found = text.count("\\")
    if found >= MIN_BACKSLASHES and found > MAX_BACKSLASH_SHARE * len(text):
        return f"{found} of {len(text)} characters are backslashes"
    if text.count("\\\\") <= MAX_FOURFOLD:
        return None
    fourfold = text.count("\\\\\\\\")
    if fourfold > MAX_FOURFOLD:
        return f"{fourfold} times four backslashes in a row"
    doubled = sum(text.count("\\\\" + name) for name in _NAMES)
    if doubled <= MAX_FOURFOLD:
        return None
    doubled -= sum(text.count("\\\\\\" + name) for name in _NAMES)
    if doubled > MAX_FOURFOLD and 2 * doubled > sum(text.count("\\" + name) for name in _NAMES):
        return f"{doubled} commands with two backslashes"
    return None


def _braces(text: str) -> str | None:
    opened, closed = text.count("{"), text.count("}")
    if abs(opened - closed) <= MAX_OPEN_BRACES:
        return None
    opened -= text.count("\\{")
    closed -= text.count("\\}")
    apart = abs(opened - closed)
    if apart > MAX_OPEN_BRACES and apart > MAX_OPEN_SHARE * max(opened, closed):
        return f"{opened} opening and {closed} closing braces"
    return None


def _environments(text: str) -> str | None:
    opened, closed = text.count("\\begin{"), text.count("\\end{")
    if abs(opened - closed) > MAX_OPEN_ENVIRONMENTS:
        return f"{opened} times \\begin and {closed} times \\end"
    return None


def _fractions(text: str) -> str | None:
    if "frac\\" in text or "frac{\\frac{\\frac{" in text:
        chain = _FRACTIONS.search(text)
        if chain is not None:
            return f"a chain of fractions: {chain.group()[:40]}"
    return None


def _dollars(text: str) -> str | None:
    return "five dollar signs in a row" if "$$$$$" in text else None


def broken_latex(text: str) -> str | None:
    """What is damaged beyond an oversight; None if nothing is."""
    if "\\" not in text:
        return _braces(text) or _dollars(text)
    return (
        _backslashes(text)
        or _braces(text)
        or _environments(text)
        or _fractions(text)
        or _dollars(text)
    )


def _may_hold_html(text: str) -> bool:
    for first, signs in _SIGNS_OF_HTML:
        if first in text:
            for sign in signs:
                if sign in text:
                    return True
    return False


def html_remains(text: str) -> str | None:
    """Tags and entities of a rendered page; None if there are fewer than `MIN_TAGS`."""
    if not _may_hold_html(text):
        return None
    found = _HTML.findall(text)
    return f"{len(found)} tags or entities, e.g. {found[0]}" if len(found) >= MIN_TAGS else None
