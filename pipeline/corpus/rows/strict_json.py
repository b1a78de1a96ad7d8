"""One row of a file as strict JSON: an object with clean strings, or a fault.

Called by the readers; reads and writes nothing. Python's reader takes the last of two
equal keys, and NaN, without a word; here either makes the row unreadable:

not-utf8, not-json, not-object, duplicate-key, not-finite, too-large, nul-character,
control-character, lone-surrogate (docs/data.md says what each means).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import NoReturn

from pipeline.base.records import excerpt
from pipeline.corpus.rows.text import RowFault, Value, clean_value, printable

UNREADABLE = frozenset(
    "not-utf8 not-json not-object duplicate-key not-finite too-large damaged-archive".split()
)
"""Faults of the file itself; too many of them in one file stop the run."""

MAX_ROW_BYTES = 64 * 2**20
"""A longer row is passed over without being held."""

_EXCERPT_SOURCE = 2000


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file: its value, or the fault that makes it unreadable."""

    source: str
    origin: str
    value: dict[str, Value] | None
    fault: RowFault | None
    text: str
    """The row as it stands in the file, or enough of its start."""

    @property
    def excerpt(self) -> str:
        """The start of the row on one line, fit for strict UTF-8."""
        return excerpt(printable(self.text[:_EXCERPT_SOURCE]))


def faulty_row(source: str, origin: str, reason: str, detail: str, text: str = "") -> Row:
    """A row that cannot be read."""
    return Row(source, origin, None, RowFault(reason, detail), text[:_EXCERPT_SOURCE])


def _refuse_constant(name: str) -> NoReturn:
    raise RowFault("not-finite", name)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise RowFault("not-finite", digits[:40])
    return value


def unique(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    """An object of these members.

    Raises:
        RowFault: duplicate-key.
    """
    members = dict(pairs)
    if len(members) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = counts.most_common(1)[0][0]
        raise RowFault("duplicate-key", f"`{printable(twice)}` occurs twice in one object")
    return members


DECODER = json.JSONDecoder(
    object_pairs_hook=unique, parse_constant=_refuse_constant, parse_float=_finite
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
        return checked(DECODER.decode(text))
    except RecursionError:
        raise RowFault("not-json", "nested too deeply") from None
    except ValueError as error:
        raise RowFault("not-json", printable(str(error))) from None


def decode(raw: bytes) -> str:
    """Strict UTF-8.

    Raises:
        RowFault: not-utf8, naming the first byte that is none.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RowFault("not-utf8", f"byte 0x{raw[error.start]:02X} at {error.start}") from None
