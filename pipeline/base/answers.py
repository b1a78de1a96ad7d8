r"""Are two answers the same? The comparing half of the grader.

An answer is read as one value or a bare list of values; a value is a number, a
bracketed tuple, a matrix or an expression. Numbers are compared exactly as
fractions, everything else as normalised text with its summands in any order.
No expression is evaluated beyond literals of bounded size (integers, decimals,
fractions, mixed numbers, powers of ten, perfect roots), so nothing can blow up
and two different expressions never become equal by rounding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from pipeline.base.latex import clean
from pipeline.base.literals import literal

MAX_CHARACTERS = 1000
"""A longer answer is compared as it stands, blanks folded."""

REMEMBERED_CHARACTERS = 80
"""The last 4,096 answers of such length are normalised once: rows repeat small numbers."""

MAX_DEPTH = 6
"""Brackets nested deeper are compared as text."""

_LABEL = re.compile(
    r"(?P<label>\\?[A-Za-z][A-Za-z ]{0,20}'?(?:_\{?\w{1,8}\}?)?(?:\([A-Za-z](?:,[A-Za-z])*\))?"
    r"|\([A-Za-z](?:,[A-Za-z])*\))(?:=|\\in(?![A-Za-z]))(?P<value>[^=<>]+)"
)
_BASE = re.compile(r"(?P<value>-?[0-9A-F]+)_\{?(?:\\text\{)?(?P<base>\d{1,2}|[a-z]+)\}{0,2}")
_RELATION = re.compile(r"(=|<|>|:|\||\\(?:le|ge|ne|in|to|mid|mod|pmod|bmod|equiv)(?![A-Za-z]))")
_PERCENT = re.compile(r"(?P<value>.*[\d})])%")
_DEGREE = re.compile(r"(?P<value>.*[\d})a-z])\^\{\\circ\}")
_TEXT_UNIT = re.compile(r"(?P<value>.*[^\s{(\[,]) ?\\text\{(?P<unit>[^{}]*)\}(?:\^\{?[23]\}?)?")
_WORD_UNIT = re.compile(r"(?P<value>.*[\d})]) ?(?P<unit>[A-Za-z][A-Za-z. ]*)(?:\^\{?[23]\}?)?")

_UNIT_NAMES = {
    "cm": "cm centimeter centimetre", "mm": "mm millimeter millimetre",
    "km": "km kilometer kilometre",
    "m": "meter metre", "inch": "inch inches in", "foot": "foot feet ft", "yard": "yard yd",
    "mile": "mile mi", "g": "gram", "kg": "kg kilogram", "mg": "mg", "pound": "pound lb",
    "ounce": "ounce oz", "second": "second sec", "minute": "minute min", "hour": "hour hr",
    "day": "day", "week": "week", "month": "month", "year": "year", "degree": "degree deg",
    "dollar": "dollar usd", "cent": "cent", "percent": "percent", "mph": "mph",
    "liter": "liter litre",
    "ml": "ml milliliter", "unit": "unit", "square": "square sq", "cubic": "cubic", "per": "per",
}  # fmt: skip
_UNITS = {alias: unit for unit, names in _UNIT_NAMES.items() for alias in names.split()}
_SCALES = frozenset({"hundred", "thousand", "million", "billion", "trillion", "dozen"})
_BASES = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip
_CLOSERS = {"(": ")", "[": "]"}


@dataclass(frozen=True, slots=True, order=True)
class Value:
    """One value: its comparable key (or bare text), and what may be said or unsaid with it."""

    key: str
    label: str = ""
    unit: str = ""
    base: str = ""

    def agrees(self, other: Value) -> bool:
        """Equal keys, and marks that agree."""
        return self.key == other.key and self.marks_agree(other)

    def marks_agree(self, other: Value) -> bool:
        """A label, unit or base counts only if both answers state one."""
        pairs = ((self.label, other.label), (self.unit, other.unit), (self.base, other.base))
        return all(a == b or not a or not b for a, b in pairs)


def is_readable(text: str) -> bool:
    """Whether something is left after normalising and its braces are balanced."""
    depth = 0
    for token in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(token.group(), 0)
        if depth < 0:
            return False
    return depth == 0 and bool(normalise_answer(text))


def normalise_answer(text: str) -> str:
    r"""One spelling of an answer (`\dfrac12` and `1/2` give `\frac{1}{2}`); units stay."""
    if len(text) > MAX_CHARACTERS:
        return " ".join(text.split())
    return _cleaned(text) if len(text) <= REMEMBERED_CHARACTERS else clean(text)


_cleaned = lru_cache(maxsize=4096)(clean)


def same_answer(answer: str, gold: str) -> str | None:
    """The rule by which two answers are the same, or None if they are not.

    Returns:
        "match-exact" for equal text, "match-normalised" for equal normalised
        text or structure, "match-numeric" for one number written in two ways.
    """
    if answer.strip() == gold.strip():
        return "match-exact"
    left, right = normalise_answer(answer), normalise_answer(gold)
    if not left or not right:
        return None
    if left == right:
        return "match-normalised"
    if max(len(answer), len(gold)) > MAX_CHARACTERS:
        return None
    ours, theirs = _values(left), _values(right)
    if len(ours) != len(theirs) or not all(a.agrees(b) for a, b in zip(ours, theirs, strict=True)):
        return None
    numeric = len(ours) == 1 and re.fullmatch(r"-?\d+(/\d+)?", ours[0].key)
    return "match-numeric" if numeric else "match-normalised"


def integer_of(text: str) -> int | None:
    r"""The integer that an answer is: `033`, `33.0`, `x=33` and `33^\circ` are 33; else None.

    None for lists, for other numbers and for a number in a stated base.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    values = _values(normalise_answer(text))
    if len(values) != 1 or values[0].base or not re.fullmatch(r"-?[0-9]+", values[0].key):
        return None
    return int(values[0].key)


def split_outside(text: str, *separators: str) -> list[str]:
    """Parts between separators that lie outside all brackets and braces."""
    parts, depth, start = [], 0, 0
    for token in re.finditer(r"\\[{}]|\\[A-Za-z]+|\\.|.", text, re.DOTALL):
        mark = token.group()
        if mark in ("{", "(", "[", r"\{"):
            depth += 1
        elif mark in ("}", ")", "]", r"\}"):
            depth -= 1
        elif depth == 0 and mark in separators:
            parts.append(text[start : token.start()])
            start = token.end()
    parts.append(text[start:])
    return parts


def items_of(text: str) -> list[str]:
    r"""The values of a normalised answer in their order: a list's or set's items, `\pm` as two."""
    if text.startswith(r"\{") and text.endswith(r"\}"):
        text = text[2:-2]
    items = [item for item in split_outside(text, ",", ";") if item.strip()]
    return [value.strip() for item in items for value in _plus_or_minus(item)]


def _values(text: str) -> list[Value]:
    """The values of a normalised answer; a bare list or a set is put in one order."""
    return sorted(map(_read_value, items_of(text)))


def _plus_or_minus(item: str) -> list[str]:
    r"""`a\pm b` as its two values."""
    parts = [part.strip() for part in re.split(r"\\pm(?![A-Za-z])", item)]
    if len(parts) != 2:
        return [item]
    before, after = parts
    return [
        f"{before}+{after}" if before and before[-1] != "=" else before + after,
        f"{before}-{after}",
    ]


def _read_value(text: str) -> Value:
    """Take label, units and base off, then make the key of what is left."""
    bare = without_marks(text)
    return Value(_key(bare.key, 0), bare.label, bare.unit, bare.base)


def without_marks(text: str) -> Value:
    """One value without its label, unit and base, which stand beside it."""
    label = unit = base = ""
    named = _LABEL.fullmatch(text)
    if named:
        label, text = named["label"].replace(r"\text", "").strip(), named["value"].strip()
    text, unit = _take_unit(text)
    based = _BASE.fullmatch(text)
    if based and (based["base"].isdigit() or based["base"] in _BASES):
        base, text = _BASES.get(based["base"], based["base"]), based["value"]
    return Value(text, label, unit, base)


def _take_unit(text: str) -> tuple[str, str]:
    """A value without its unit, and the unit's canonical name."""
    for pattern, name in ((_PERCENT, "percent"), (_DEGREE, "degree")):
        marked = pattern.fullmatch(text)
        if marked:
            return marked["value"], name
    for pattern, any_word in ((_TEXT_UNIT, True), (_WORD_UNIT, False)):
        found = pattern.fullmatch(text)
        if not found or not re.search(r"\d|\\pi|\\sqrt", found["value"]):
            continue
        words = found["unit"].lower().replace(".", "").split()
        known = [_UNITS.get(word, _UNITS.get(word.rstrip("s"), "")) for word in words]
        if words and (all(known) or any_word) and not _SCALES & set(words):
            named = [unit or word.rstrip("s") for unit, word in zip(known, words, strict=True)]
            return found["value"].strip(), " ".join(named)
    return text, ""


def _key(text: str, depth: int) -> str:
    """Text that two equal values share."""
    if depth > MAX_DEPTH:
        return text
    number = literal(text)
    if number is not None:
        return str(number)
    pieces = split_outside(text, r"\cup") if r"\cup" in text else []
    if len(pieces) > 1:
        return r"\cup".join(sorted(_key(piece, depth + 1) for piece in pieces))
    if text.startswith(r"\begin{") and "matrix}" in text:
        return _matrix_key(text, depth)
    inside = inside_brackets(text)
    if inside is not None:
        return _bracket_key(text, inside, depth)
    sides = _RELATION.split(_fold_words(text))
    return "".join(side if _RELATION.fullmatch(side) else _sum_key(side) for side in sides)


def inside_brackets(text: str) -> str | None:
    """What one pair of brackets around the whole text holds."""
    if text[:1] not in _CLOSERS or text[-1:] not in (")", "]"):
        return None
    inner = text[1:-1]
    level = 0
    for mark in inner:
        level += {"(": 1, "[": 1, ")": -1, "]": -1}.get(mark, 0)
        if level < 0:
            return None
    return inner if level == 0 else None


def _bracket_key(text: str, inside: str, depth: int) -> str:
    """Tuples and intervals keep brackets and order; `(5)` is 5 and `(A)` is A."""
    items = split_outside(inside, ",", ";")
    if len(items) == 1 and text[0] == "(" and text[-1] == ")":
        return _key(inside, depth + 1)
    return text[0] + ",".join(_key(item.strip(), depth + 1) for item in items) + text[-1]


def _matrix_key(text: str, depth: int) -> str:
    """Rows and entries in order; the kind of delimiter does not count."""
    body = re.sub(r"\\(?:begin|end)\{[a-z]*matrix\}", "", text)
    rows = [row for row in body.split(r"\\") if row.strip()]
    entries = [",".join(_key(entry.strip(), depth + 1) for entry in row.split("&")) for row in rows]
    return "matrix:" + ";".join(entries)


def _fold_words(text: str) -> str:
    r"""Unwrap `\text{}`; capitals do not count in words of three letters or more."""
    plain = re.sub(r"\\text\{([^{}]*)\}", r"\1", text).strip()
    return plain.casefold() if re.fullmatch(r"[A-Za-z][A-Za-z' -]{2,}", plain) else plain


def _sum_key(text: str) -> str:
    """Summands in one order, so that `1+x` equals `x+1`."""
    terms, depth, start = [], 0, 0
    for place, mark in enumerate(text):
        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(mark, 0)
        if mark in "+-" and depth == 0 and place > start and text[place - 1] not in "^_*/=<>+-":
            terms.append(text[start:place])
            start = place
    terms.append(text[start:])
    return "+".join(sorted(_term_key(term) for term in terms))


def _term_key(term: str) -> str:
    term = term.removeprefix("+").strip()
    number = literal(term)
    if number is not None:
        return str(number)
    return re.sub(r"^(-?)\\frac\{-([^-+{}]*(?:\{[^{}]*\}[^-+{}]*)*)\}", _flip_sign, term)


def _flip_sign(fraction: re.Match[str]) -> str:
    return rf"{'' if fraction.group(1) else '-'}\frac{{{fraction.group(2)}}}"
