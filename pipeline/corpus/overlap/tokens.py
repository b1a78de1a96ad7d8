r"""The words, numbers and operators of a problem, as far as they carry meaning.

Called by index.py, similarity.py and report.py; reads and writes nothing. screen.py
does the same for thousands of problems at once, and tests hold the two together.

What does not change a problem is folded: case, Unicode forms, punctuation, LaTeX layout
(`\left`, `\text`, `\begin{pmatrix}`), spellings (`\dfrac`, `\leqslant`, `10{,}000`), and
Asymptote drawings go. What does is kept: numbers, operators (3+4 is not 3-4), names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

DRAWING, DRAWN = "[asy]", "[/asy]"
COLUMNS = re.compile(r"\\begin\{(array|tabular)\*?\}(?:\[\w\])?\{[^{}]*\}")

PLAIN_MARKS = (DRAWING, "\\begin{array}", "\\begin{tabular}")
"""An ASCII text without any of these is left as it is by `plain`."""
OPERATORS = frozenset("-+*/=<>^!")
LAYOUT = frozenset(
    (
        *("left", "right", "displaystyle", "textstyle", "limits", "big", "bigg", "bigl", "bigr"),
        *("text", "textbf", "textit", "textrm", "mathrm", "mathbf", "mathit", "mbox", "hbox"),
        *("operatorname", "quad", "qquad", "item", "hspace", "vspace", "hline", "begin", "end"),
        *("boldsymbol", "bm", "rm", "bf", "it"),
    )
)
r"""Commands that say how a problem looks; the environment that `\begin` names goes too."""
SPELLINGS = {
    **dict.fromkeys(("dfrac", "tfrac", "cfrac"), "frac"),
    **dict.fromkeys(("leq", "leqslant"), "le"),
    **dict.fromkeys(("geq", "geqslant"), "ge"),
    **dict.fromkeys(("neq", "not"), "ne"),
    **dict.fromkeys(("dots", "cdots", "dotsc", "dotsb", "dotsm"), "ldots"),
    **dict.fromkeys(("cdot", "times"), "*"),
    "div": "/",
}
"""Command → the token that stands for it."""
SYMBOLS = str.maketrans(
    {
        **dict.fromkeys("≤⩽", r" \le "),
        **dict.fromkeys("≥⩾", r" \ge "),
        **dict.fromkeys("×·⋅∙", "*"),
        **dict.fromkeys("÷⁄", "/"),
        **dict.fromkeys("−–—‐", "-"),
        **dict.fromkeys("’‘ʼ′", "'"),
        "≠": r" \ne ",
        "π": r" \pi ",
        "√": r" \sqrt ",
        "°": r" \circ ",
        "∠": r" \angle ",
        "△": r" \triangle ",
    }
)
GENERIC = frozenset(
    (
        "a an the of to in on at by for from with without into and or not nor but if then than "
        "that this these those there their they it its is are was were be been being has have "
        "having had do does did can could will would shall should may might must let such so as "
        "each every all any both some one two three four five first second third other another "
        "same different no only also what which who whose where when how many much find compute "
        "determine evaluate calculate simplify solve prove show express enter give write written "
        "answer given suppose assume consider denote following using use form terms term value "
        "values number numbers integer integers real positive negative nonnegative nonzero complex "
        "constant constants variable variables minimum maximum smallest largest greatest least "
        "possible sum difference equation equations expression function functions satisfies "
        "satisfy satisfying solution solutions respectively distinct called between about over "
        "under equal equals common fraction simplest decimal nearest units degrees radians ordered "
        "pair option letter correct your exists exactly terms relatively prime "
        "frac sqrt ldots overline circ angle triangle theta alpha beta gamma lambda infty prod "
        "lfloor rfloor lceil rceil mathbb align cases pmatrix"
    ).split()
)
"""Words with which any exercise may be put; shared ones say nothing of its content."""
REPLACED = (("\\!", ""), ("{,}", ","), ("\\,", ","), ("*}", "}"), ("'", ""))
"""Plain replacements, in this order, before tokens are cut."""

_FOREIGN_SYMBOL = re.compile(r"[^\w\x00-\x7f]")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_TOKEN = re.compile(
    r"\\(?:begin|end)\{[a-z\x80-\U0010ffff]+"
    r"|\\?[a-z\x80-\U0010ffff]+"
    r"|[0-9]+(?:\.[0-9]+)*|[-+*/=<>^!]"
)
MASK = "#"
"""Stands for a run of numbers and one-letter names in a masked text."""


def plain(text: str) -> str:
    """The text without drawings and column patterns, its letters in one form.

    ASCII text keeps its case here; `tokens_of` and screen.py lower it.
    """
    if text.isascii() and not any(mark in text for mark in PLAIN_MARKS):
        return text
    if DRAWING in text:
        text = without_drawings(text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(SYMBOLS)).translate(SYMBOLS)
        text = _FOREIGN_SYMBOL.sub(" ", text.lower())
    return COLUMNS.sub(" ", text)


def without_drawings(text: str) -> str:
    """The text with a blank for every drawing; one that is never closed ends with its line."""
    parts: list[str] = []
    place = 0
    while (start := text.find(DRAWING, place)) >= 0:
        parts.append(text[place:start])
        stop = text.find(DRAWN, start)
        if stop >= 0:
            place = stop + len(DRAWN)
        else:
            line = text.find("\n", start)
            place = len(text) if line < 0 else line
    return " ".join([*parts, text[place:]])


def tokens_of(text: str) -> list[str]:
    """Words, numbers and operators of a problem, in order."""
    text = plain(text)
    if text.isascii():
        text = text.lower()
    for old, new in REPLACED:
        text = text.replace(old, new)
    text = _THOUSANDS.sub("", text)
    tokens: list[str] = []
    for token in _TOKEN.findall(text):
        if token[0] != "\\":
            tokens.append(token)
        elif (name := token[1:]) not in LAYOUT and "{" not in name:
            tokens.append(SPELLINGS.get(name, name))
    return tokens


def is_word(token: str) -> bool:
    """Whether a token is a word, a name or a number, no operator."""
    return token not in OPERATORS


def words_of(tokens: Sequence[str]) -> list[str]:
    """The tokens without operators: what n-grams are made of."""
    return [token for token in tokens if token not in OPERATORS]


def is_number(token: str) -> bool:
    """Whether a token is written in digits."""
    return "0" <= token[0] <= "9"


def masked_words(words: Sequence[str]) -> list[str]:
    """Words with every run of numbers and one-letter names as one `MASK`."""
    masked: list[str] = []
    for word in words:
        if is_number(word) or len(word) == 1:
            if not masked or masked[-1] != MASK:
                masked.append(MASK)
        else:
            masked.append(word)
    return masked


def ngrams(words: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """Every run of `size` words."""
    return zip(*(words[start:] for start in range(size)), strict=False)
