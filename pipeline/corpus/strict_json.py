"""One row of a file as strict JSON: an object with clean strings, or a fault.

Called by sources.py; reads and writes nothing. Python's reader takes the last of two
equal keys, and NaN, without a word; here either makes the row unreadable:

not-utf8, not-json, not-object, duplicate-key, not-finite, nul-character,
control-character, lone-surrogate (docs/data.md says what each means).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import NoReturn

from pipeline.base.records import excerpt
from pipeline.corpus.text import RowFault, Value, clean_value, printable

UNREADABLE = frozenset({"not-utf8", "not-json", "not-object", "duplicate-key", "not-finite"})
"""Faults of the file itself; too many of them in one file stop the run."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file: its value, or the fault that makes it unreadable."""

    source: str
    origin: str
    value: dict[str, Value] | None
    fault: RowFault | None
    excerpt: str


def make_row(source: str, origin: str, value: Value, fault: RowFault | None, text: str) -> Row:
    return Row(source, origin, value, fault, excerpt(printable(text[:2000])))


def _refuse_constant(name: str) -> NoReturn:
    raise RowFault("not-finite", name)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise RowFault("not-finite", digits[:40])
    return value


def _unique(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    keys: dict[str, Value] = {}
    for key, value in pairs:
        if key in keys:
            raise RowFault("duplicate-key", f"`{printable(key)}` occurs twice in one object")
        keys[key] = value
    return keys


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite
)


def checked(value: Value) -> dict[str, Value]:
    """A cleaned row, if it is an object at all."""
    if not isinstance(value, dict):
        raise RowFault("not-object", f"a row must be an object, this is {type(value).__name__}")
    cleaned: dict[str, Value] = clean_value(value)
    return cleaned


def parse_row(text: str) -> dict[str, Value]:
    """One JSON object as strict JSON reads it, cleaned.

    Raises:
        RowFault: one of the codes of this module.
    """
    if "\x00" in text:
        raise RowFault("nul-character", f"raw U+0000 at character {text.index(chr(0))}")
    try:
        return checked(_DECODER.decode(text))
    except RecursionError:
        raise RowFault("not-json", "nested too deeply") from None
    except ValueError as error:
        raise RowFault("not-json", printable(str(error))) from None


def decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RowFault("not-utf8", f"byte 0x{raw[error.start]:02X} at {error.start}") from None
