"""Grades a reply to a task: deterministic, standard library only.

Called by `environment` and by the audit. The reply is a text that ends with one JSON
object. A reply of another form scores nothing at all.

| part | with intermediates | without |
| --- | --- | --- |
| format | 0.10 | 0.10 |
| diagnosis: exactly the right codes | 0.30 | 0.35 |
| intermediates: share within tolerance | 0.25 | - |
| fix: (right fields - wrong or unneeded ones) / needed fields | 0.25 | 0.45 |
| minimality: all fields right, none unneeded | 0.10 | 0.10 |
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.hardware.gym.cases import EXACT, Gold, Value
from pipeline.hardware.gym.codes import CODES

FIX_TOLERANCE = 1e-3
"""Relative, for fields with a fraction; whole numbers, words and switches must be equal."""
LONGEST = 20_000
"""Characters of the end of a reply that may hold the answer."""
STARTS = 64
"""Places at which an answer is looked for, so that a hostile reply costs no time."""

Weights = tuple[float, float, float, float, float]
WITH: Weights = (0.10, 0.30, 0.25, 0.25, 0.10)
WITHOUT: Weights = (0.10, 0.35, 0.0, 0.45, 0.10)


@dataclass(frozen=True)
class Grade:
    """Parts of a grade, each between 0 and 1, and their weighted sum."""

    score: float = 0.0
    format: float = 0.0
    diagnosis: float = 0.0
    intermediates: float = 0.0
    fix: float = 0.0
    minimality: float = 0.0


@dataclass(frozen=True)
class Answer:
    """A reply of the right form."""

    codes: frozenset[str]
    intermediates: Mapping[str, float | None]
    fix: Mapping[str, Value]


def last_object(reply: str) -> dict[str, object] | None:
    """The JSON object that a reply ends with; a code fence around it is allowed."""
    text = re.sub(r"\s*```\s*$", "", reply[-LONGEST:]).rstrip()
    if not text.endswith("}"):
        return None
    starts = [match.start() for match in re.finditer(r"\{", text)]
    # From the end: an inner object does not reach the end of the text, the answer does.
    for start in reversed(starts[-STARTS:]):
        try:
            found = json.loads(text[start:])
        except (ValueError, RecursionError):
            continue
        return found if isinstance(found, dict) else None
    return None


def is_number(value: object) -> bool:
    """A finite number that is no switch."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300 and math.isfinite(value)


def parse(reply: str, fields: frozenset[str], quantities: Mapping[str, float]) -> Answer | None:
    """The answer of a reply, or None when its form is wrong.

    Args:
        fields: those that a fix may name.
        quantities: those asked for; each must be there, as a number or null.
    """
    found = last_object(reply)
    if found is None or not {"diagnosis", "fix"} <= set(found):
        return None
    if set(found) - {"diagnosis", "fix", "intermediates"}:
        return None
    codes, fix, numbers = found["diagnosis"], found["fix"], found.get("intermediates", {})
    if not isinstance(codes, list) or not isinstance(fix, dict) or not isinstance(numbers, dict):
        return None
    right_codes = bool(codes) and all(isinstance(c, str) and c in CODES for c in codes)
    right_fix = set(fix) <= fields and all(
        isinstance(value, bool | str) or is_number(value) for value in fix.values()
    )
    right_numbers = set(numbers) == set(quantities) and all(
        value is None or is_number(value) for value in numbers.values()
    )
    if not (right_codes and len(set(codes)) == len(codes) and right_fix and right_numbers):
        return None
    return Answer(frozenset(codes), numbers, fix)


def within(given: float | None, right: float, tolerance: float) -> bool:
    """Whether a number is right to a relative tolerance."""
    return given is not None and abs(given - right) <= tolerance * abs(right) + EXACT


def same(given: Value, right: Value) -> bool:
    """Whether a field of a fix has the right value."""
    if isinstance(right, bool | str) or isinstance(given, bool | str):
        return type(given) is type(right) and given == right
    tolerance = FIX_TOLERANCE if isinstance(right, float) else 0.0
    return abs(given - right) <= tolerance * abs(right)


def grade(reply: str, gold: Gold, fields: frozenset[str], quantities: Mapping[str, float]) -> Grade:
    """Grade one reply against the gold of its task."""
    answer = parse(reply, fields, quantities)
    if answer is None:
        return Grade()
    right = sum(
        name in answer.fix and same(answer.fix[name], value) for name, value in gold.fix.items()
    )
    unneeded = len(set(answer.fix) - set(gold.fix))
    numbers = [
        within(answer.intermediates[name], gold.intermediates[name], tolerance)
        for name, tolerance in quantities.items()
    ]
    parts = (
        1.0,
        float(answer.codes == set(gold.codes)),
        sum(numbers) / len(numbers) if numbers else 0.0,
        max(0.0, (2 * right - len(answer.fix)) / len(gold.fix)),
        float(right == len(gold.fix) and not unneeded),
    )
    weights = WITH if quantities else WITHOUT
    return Grade(round(math.fsum(p * w for p, w in zip(parts, weights)), 12), *parts)
