r"""Are two answers equal by algebra? Runs in a worker process; algebra_judge.py talks to it.

Reads cleaned answers of latex.py; writes nothing. Lists, tuples, intervals, matrices and
equations are taken apart here, by the rules of answers.py; only their leaves go to sympy.
Two guards keep different expressions apart: they must agree to 40 digits, relative to
their size, at fixed points (real ones of both signs), and their difference must then be
proven zero. Numbers that agree but are not proven equal count as different.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import sympy
from sympy import Expr, Rational, Symbol

from pipeline.base.answers import (
    MAX_DEPTH,
    inside_brackets,
    items_of,
    split_outside,
    without_marks,
)
from pipeline.base.expressions import TooLarge, Unreadable, parse

Outcome = Literal["same", "different", "unreadable", "too-large"]

MAX_ITEMS = 12
"""Longer lists are not matched."""
DIGITS = 60
"""Decimal digits of numeric evaluation."""
RELATIVE = sympy.Float("1e-40", DIGITS)
ABSOLUTE = sympy.Float("1e-50", DIGITS)
POINTS = 4
"""Points at which expressions with variables are compared."""
NEEDED_POINTS = 2
"""At fewer points than this both sides have no finite value: not proven."""
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
_FLIPPED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}
_HOLED = re.compile(
    r"(?P<whole>[(\[][^,\\]*,[^,\\]*[)\]]|\\mathbb\{?R\}?|\\R)"
    r"\\(?:setminus|backslash)\\\{(?P<points>[^{}]*)\\\}"
)
_RELATION = re.compile(r"(=|<|>|\\le(?![A-Za-z])|\\ge(?![A-Za-z]))")

FAILURES = (
    ArithmeticError, AttributeError, IndexError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""What sympy raises on expressions that it cannot handle."""


def compare(left: str, right: str) -> Outcome:
    """Compare two cleaned answers.

    Returns:
        "unreadable" if either is not in the grammar or sympy fails on it; "too-large"
        if a limit of expressions.py or the stack is hit.
    """
    try:
        return "same" if _same_lists(left, right) else "different"
    except Unreadable:
        return "unreadable"
    except (TooLarge, RecursionError, OverflowError):
        return "too-large"
    except FAILURES:
        return "unreadable"


def _same_lists(left: str, right: str) -> bool:
    return _matched(items_of(left), items_of(right), _same_value)


def _matched(ours: list[str], theirs: list[str], same: Callable[[str, str], bool]) -> bool:
    """Whether the items can be paired; each equals at most one class of the others."""
    if len(ours) != len(theirs) or len(ours) > MAX_ITEMS:
        return False
    left_over = list(theirs)
    for item in ours:
        partner = next((other for other in left_over if same(item, other)), None)
        if partner is None:
            return False
        left_over.remove(partner)
    return True


def _same_value(left: str, right: str) -> bool:
    a, b = without_marks(left), without_marks(right)
    bare = not (a.label and b.label) and _tuple_items(left) is None
    if bare and _RELATION.search(left) and _RELATION.search(right):
        return _same_relation(left, right)
    if a.base or b.base or not a.marks_agree(b):
        return False
    return _same_text(a.key, b.key, 0)


def _same_text(left: str, right: str, depth: int) -> bool:
    if left == right:
        return True
    if depth > MAX_DEPTH:
        raise TooLarge

    def deeper(a: str, b: str) -> bool:
        return _same_text(a.strip(), b.strip(), depth + 1)

    unions = (_pieces(left), _pieces(right))
    if any(len(pieces) > 1 for pieces in unions):
        return _matched(unions[0], unions[1], deeper)
    if left.startswith(r"\begin{") and right.startswith(r"\begin{"):
        return _in_order(_entries(left), _entries(right), deeper)
    ours, theirs = _tuple_items(left), _tuple_items(right)
    if ours is not None or theirs is not None:
        return (
            ours is not None
            and theirs is not None
            and (left[0], left[-1]) == (right[0], right[-1])
            and _in_order(ours, theirs, deeper)
        )
    if _RELATION.search(left) or _RELATION.search(right):
        return _same_relation(left, right)
    return equal(parse(left), parse(right))


def _pieces(text: str) -> list[str]:
    r"""Parts of a union; `(0,5)\setminus\{2\}` is the union of what lies beside the 2."""
    holed = _HOLED.fullmatch(text)
    if holed is None:
        return split_outside(text, r"\cup")
    whole = holed["whole"]
    low, high = ("(-\\infty", "\\infty)") if whole[0] == "\\" else whole.split(",")
    points = {point: parse(point) for point in split_outside(holed["points"], ",")}
    if not all(value.is_Rational for value in points.values()):
        raise Unreadable("points of no fixed order")
    ends = sorted(points, key=lambda point: points[point])
    bounds = [parse(low[1:]), *(points[end] for end in ends), parse(high[:-1])]
    if not all((above - below).is_extended_positive for below, above in pairwise(bounds)):
        raise Unreadable("points that are not inside")
    starts = [low, *(f"({end}" for end in ends)]
    stops = [*(f"{end})" for end in ends), high]
    return [f"{start},{stop}" for start, stop in zip(starts, stops)]


def _in_order(ours: list[str], theirs: list[str], same: Callable[[str, str], bool]) -> bool:
    return len(ours) == len(theirs) and all(map(same, ours, theirs))


def _tuple_items(text: str) -> list[str] | None:
    """Items of a bracketed list; None for anything else, such as `(x+1)`."""
    inside = inside_brackets(text)
    items = split_outside(inside, ",", ";") if inside is not None else []
    return items if len(items) > 1 else None


def _entries(matrix: str) -> list[str]:
    """Entries row by row, with a mark at each row's end so that shapes must agree."""
    body = re.sub(r"\\(?:begin|end)\{[a-z]*matrix\}", "", matrix)
    rows = [row.split("&") for row in body.split(r"\\") if row.strip()]
    return [entry for row in rows for entry in (*row, "w_0")]


def _same_relation(left: str, right: str) -> bool:
    """One equation or inequality each: the same one when a side is a multiple of the other's."""
    ours, theirs = (_difference(side) for side in (left, right))
    if ours is None or theirs is None:
        return False
    (sign, a), (other, b) = ours, theirs
    if b == 0 or a == 0:
        return False
    ratio = sympy.cancel(a / b)
    if ratio.free_symbols or not ratio.is_real:
        return False
    if "=" in (sign, other):
        return sign == other
    return sign == (other if ratio.is_positive else _FLIPPED[other])


def _difference(text: str) -> tuple[str, Expr] | None:
    """The relation's sign and left side minus right side; None for a chain."""
    parts = [part.strip() for part in _RELATION.split(text)]
    if len(parts) != 3:
        return None
    return parts[1], sympy.expand(parse(parts[0]) - parse(parts[2]))


def equal(left: Expr, right: Expr) -> bool:
    """Whether two expressions are equal for all values of their variables."""
    if left == right:
        return True
    if left.is_Rational and right.is_Rational:
        return False
    if any(side.has(sympy.oo, -sympy.oo, sympy.zoo, sympy.nan) for side in (left, right)):
        return False
    return not _refuted(left, right) and _proven(left - right)


def _refuted(left: Expr, right: Expr) -> bool:
    """Whether the values differ at a point, or exist at too few."""
    symbols = sorted(left.free_symbols | right.free_symbols, key=lambda symbol: symbol.name)
    usable = 0
    for point in range(POINTS if symbols else 1):
        values = _values_at(left, right, symbols, point)
        if values is None:
            continue
        a, b = values
        gap = abs(a - b)
        if gap > ABSOLUTE and gap > RELATIVE * max(abs(a), abs(b)):
            return True
        usable += 1
    return usable < (NEEDED_POINTS if symbols else 1)


def _values_at(
    left: Expr, right: Expr, symbols: list[Symbol], point: int
) -> tuple[Expr, Expr] | None:
    """Both values at one point of small fractions; None if one is not finite."""
    places = {
        symbol: Rational(
            _PRIMES[(place + 3 * point) % len(_PRIMES)] * (-1 if (place + point) % 2 else 1),
            _PRIMES[(2 * place + point + 1) % len(_PRIMES)] + 1,
        )
        for place, symbol in enumerate(symbols)
    }
    values = [side.subs(places).evalf(DIGITS) for side in (left, right)]
    finite = all(value.is_number and value.is_finite for value in values)
    return (values[0], values[1]) if finite else None


def _proven(difference: Expr) -> bool:
    """Whether a difference is zero, by the cheapest step that shows it."""
    steps: tuple[Callable[[Expr], Expr], ...] = (
        sympy.expand,
        sympy.cancel,
        lambda found: sympy.expand(sympy.radsimp(sympy.sqrtdenest(found))),
        sympy.simplify,
    )
    for step in steps:
        difference = step(difference)
        if difference == 0:
            return True
    return not difference.free_symbols and difference.equals(0) is True
