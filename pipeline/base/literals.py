r"""Number literals of answers, read exactly.

Integers, decimals, fractions, mixed numbers, powers of ten, repeating decimals
and perfect roots become a `Fraction`; anything else is no literal. Digits and
exponents are bounded, so the cost is bounded however hostile the text.
"""

from __future__ import annotations

import re
from fractions import Fraction

MAX_DIGITS = 60
"""A number of more digits is compared as text."""

_NUMBER = r"(?:\d+\.?\d*|\.\d+)"
_DECIMAL = re.compile(rf"[-+]?{_NUMBER}")
_FRACTION = re.compile(
    rf"(?P<sign>[-+]?)(?P<whole>\d*)\\frac\{{(?P<top>[-+]?{_NUMBER})\}}\{{(?P<low>[-+]?{_NUMBER})\}}"
)
_SCIENTIFIC = re.compile(
    rf"(?P<sign>[-+]?)(?:(?P<factor>{_NUMBER})\*)?10\^\{{?(?P<power>-?\d{{1,2}})\}}?"
)
_REPEATING = re.compile(
    r"(?P<sign>[-+]?)(?P<whole>\d*)\.(?P<start>\d*)\\overline\{?(?P<cycle>\d+)\}?"
)
_ROOT = re.compile(r"(?P<sign>[-+]?)\\sqrt(?:\[(?P<index>\d{1,2})\])?\{(?P<radicand>\d+)\}")


def literal(text: str) -> Fraction | None:
    r"""The exact value of a number literal; None for everything else.

    Reads `-3`, `.5`, `\frac{1}{2}`, `5\frac{1}{2}` (5½), `1.2*10^{3}`,
    `0.\overline{3}` and roots that come out whole, such as `\sqrt[3]{8}`.
    """
    if not text or text[0] not in "-+.\\0123456789" or len(re.findall(r"\d", text)) > MAX_DIGITS:
        return None
    if _DECIMAL.fullmatch(text):
        return Fraction(text)
    for pattern, value in _LITERALS:
        found = pattern.fullmatch(text)
        if found:
            size = value(found)
            return -size if size is not None and found["sign"] == "-" else size
    return None


def _fraction_value(found: re.Match[str]) -> Fraction | None:
    low, top = Fraction(found["low"]), Fraction(found["top"])
    if low == 0 or (found["whole"] and (top < 0 or low < 0)):
        return None
    return Fraction(found["whole"] or 0) + top / low


def _scientific_value(found: re.Match[str]) -> Fraction | None:
    power = int(found["power"])
    return (
        Fraction(found["factor"] or 1) * Fraction(10) ** power if abs(power) <= MAX_DIGITS else None
    )


def _repeating_value(found: re.Match[str]) -> Fraction | None:
    start, cycle = found["start"], found["cycle"]
    unit = Fraction(1, 10 ** len(start))
    head = Fraction(found["whole"] or 0) + Fraction(start or 0) * unit
    return head + Fraction(int(cycle), 10 ** len(cycle) - 1) * unit


def _root_value(found: re.Match[str]) -> Fraction | None:
    """A root that is an integer; by bisection, since floats round."""
    index, radicand = int(found["index"] or 2), int(found["radicand"])
    if index == 0:
        return None
    low, high = 0, 10 ** (len(found["radicand"]) // index + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**index <= radicand else (low, middle - 1)
    return Fraction(low) if low**index == radicand else None


_LITERALS = (
    (_FRACTION, _fraction_value),
    (_SCIENTIFIC, _scientific_value),
    (_REPEATING, _repeating_value),
    (_ROOT, _root_value),
)
