"""Strings as rows carry them: cleaned once, or refused with a reason.

Read by every module of the corpus room; writes nothing. Line ends become LF and a
byte order mark is dropped. A form feed before a letter is the `\\f` of a `\\frac` that
was escaped once too little, and becomes it again (so do `\\a`, `\\b` and `\\v`). U+0000,
other control characters, half a surrogate pair and numbers that are not finite make
a row unusable: text is damaged there, or cannot be encoded, or is no strict JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

Value = Any
"""A value of a parsed row; its type is checked where it is used."""

_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_LOST_BACKSLASH = re.compile(r"[\x07\x08\x0b\x0c](?=[a-z])")
_ESCAPES = {"\x07": "\\a", "\x08": "\\b", "\x0b": "\\v", "\x0c": "\\f"}
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SECOND_CONTROLS = re.compile(rb"\xc2[\x80-\x9f]")
_CLEAN_BYTES = bytes(b for b in range(256) if b in b"\t\n" or (b >= 0x20 and b != 0x7F))
"""Bytes of UTF-8 that need no second look, but for C1 controls and the byte order mark."""
_ASCII = bytes(range(128))
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_THINKING_PARTS = frozenset({"reasoning", "thinking"})

MAX_DEPTH = 100
"""Lists and objects inside one another; a deeper row is no data but an attack or a fault."""


class RowFault(Exception):
    """Why one row goes no further; never leaves the corpus room.

    Args:
        reason: a code of docs/data.md.
        detail: the value or figure that decided it.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def printable(text: str) -> str:
    """The same text with everything that strict UTF-8 JSON refuses spelt out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")


def clean_text(text: str) -> str:
    """One string of a row, with LF line ends and no byte order mark.

    Raises:
        RowFault: nul-character, control-character or lone-surrogate.
    """
    if _is_clean(text):
        return text
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _LOST_BACKSLASH.sub(lambda found: _ESCAPES[found.group()], text)
    found = _FORBIDDEN.search(text)
    if found is not None:
        code = "nul-character" if found.group() == "\x00" else "control-character"
        raise RowFault(code, f"U+{ord(found.group()):04X} at character {found.start()}")
    found = _SURROGATE.search(text)
    if found is not None:
        raise RowFault("lone-surrogate", f"U+{ord(found.group()):04X}")
    return text.replace("\ufeff", "")


def _is_clean(text: str) -> bool:
    """Whether `clean_text` would leave a text as it is; six times faster than a search."""
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        return False
    if raw.translate(None, _CLEAN_BYTES):
        return False
    return len(raw) == len(text) or (
        _SECOND_CONTROLS.search(raw) is None and b"\xef\xbb\xbf" not in raw
    )


def beyond_ascii(text: str) -> str:
    """The characters of a text that are not ASCII, in order; ten times faster than a search."""
    if text.isascii():
        return ""
    raw = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return raw.decode("utf-8", "surrogatepass")


def clean_value(value: Value, depth: int = MAX_DEPTH) -> Value:
    """A parsed value with every string in it cleaned and nulls left out of objects.

    Args:
        depth: levels of lists and objects that may still follow.

    Raises:
        RowFault: of `clean_text`, not-finite for NaN and infinities, duplicate-key for
            keys that cleaning makes equal, or not-json for too deep a nesting.
    """
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, (dict, list, tuple)) and depth == 0:
        raise RowFault("not-json", f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        kept = {clean_text(str(key)): clean_value(one, depth - 1) for key, one in value.items()}
        if len(kept) != len(value):
            raise RowFault("duplicate-key", "two keys differ in invisible characters alone")
        return {key: one for key, one in kept.items() if one is not None}
    if isinstance(value, (list, tuple)):
        return [clean_value(one, depth - 1) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise RowFault("not-finite", repr(value))
    return value


def number_text(value: float | Decimal) -> str:
    """A number as an answer is written: `27.0` → `27`, `0.5` → `0.5`."""
    if isinstance(value, int):
        return str(value)
    if value == value.to_integral_value() if isinstance(value, Decimal) else value.is_integer():
        return str(int(value))
    return str(value)


def as_text(value: Value, field: str) -> str:
    """Text of a field that holds a string, a number, or a list of text parts.

    Raises:
        RowFault: wrong-type, naming the field and what it holds.
    """
    text, thinking = as_parts(value, field)
    if thinking:
        raise RowFault("wrong-type", f"`{field}` holds reasoning parts where text is expected")
    return text


def as_parts(value: Value, field: str) -> tuple[str, str]:
    """(text, reasoning) of a message's content: a string, a number, or a list of parts."""
    if isinstance(value, str):
        return value, ""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, list)):
        raise RowFault("wrong-type", f"`{field}` is {type(value).__name__}")
    if not isinstance(value, list):
        return number_text(value), ""
    texts: list[str] = []
    thoughts: list[str] = []
    for part in _flat(value):
        kind, text = _part(part, field)
        (thoughts if kind in _THINKING_PARTS else texts).append(text)
    return "\n".join(texts), "\n".join(thoughts)


def _flat(parts: list[Value]) -> Iterator[Value]:
    """Parts of a list, those of lists inside it included."""
    for part in parts:
        if isinstance(part, list):
            yield from _flat(part)
        else:
            yield part


def _part(part: Value, field: str) -> tuple[str, str]:
    """(type, text) of one content part; `{"type": "text", "text": {"value": "…"}}` too."""
    if isinstance(part, str):
        return "text", part
    if not isinstance(part, dict):
        raise RowFault("wrong-type", f"`{field}` holds a part of type {type(part).__name__}")
    kind = part.get("type", "text")
    if not isinstance(kind, str) or kind not in _TEXT_PARTS | _THINKING_PARTS:
        raise RowFault("not-text", f"`{field}` holds a part of type {excerpt_of(kind)}")
    for name in ("text", "value", "content", kind):
        held = part.get(name)
        if isinstance(held, dict):
            held = held.get("value")
        if isinstance(held, str):
            return kind, held
    raise RowFault("wrong-type", f"`{field}` holds a {kind} part without text")


def excerpt_of(value: Value, most: int = 40) -> str:
    """At most `most` characters of any value, for a detail."""
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"
