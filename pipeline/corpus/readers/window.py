"""JSON text read piece by piece: one value at a time, of a file of any size.

Reads a stream; writes nothing. Called by arrays.py. Memory holds a piece of the file
and one value of at most `MAX_ROW_BYTES` characters. A value that breaks a rule of strict
JSON, or of JSON itself, is passed over alone as long as its brackets pair up.
"""

from __future__ import annotations

import codecs
import re
from typing import BinaryIO

from pipeline.corpus.rows.strict_json import DECODER, MAX_ROW_BYTES
from pipeline.corpus.rows.text import RowFault, Value, printable

PIECE_BYTES = 2**18
BLANKS = " \t\r\n"
_EXCERPT = 2000
_MARK = re.compile(r'["{}\[\]]')
_OPENINGS = ("{", "[", '"')
_STEPS = {'"': 0, "{": 1, "[": 1, "}": -1, "]": -1}
_IN_STRING = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SCALAR_END = re.compile(r"[\s,\]}]")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
"""Undecodable bytes come out of `surrogateescape` so; well-formed UTF-8 never does."""


class Cut(Exception):
    """The text ends, or breaks off, inside a value; what follows is lost."""

    def __init__(self, detail: str, reason: str = "not-json") -> None:
        super().__init__(f"{detail}; what follows is lost")
        self.reason = reason


class Window:
    """A place in JSON text, and as much of the text behind it as has been needed."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text = ""
        self._at = 0
        self._ended = False
        self._more()
        self._text = self._text.removeprefix("\ufeff")

    def _more(self) -> bool:
        """Read on, at least as much as is held; False at the end of the file."""
        if self._ended:
            return False
        raw = self._stream.read(max(PIECE_BYTES, len(self._text) - self._at))
        self._ended = not raw
        self._text = self._text[self._at :] + self._decoder.decode(raw, final=self._ended)
        self._at = 0
        return True

    def peek(self, skipped: str = BLANKS, beyond: int = 0) -> str:
        """The next character that is not to be skipped; empty at the end.

        Args:
            beyond: look so many characters behind the present place and stay there.
        """
        at = self._at + beyond
        while True:
            while at < len(self._text) and self._text[at] in skipped:
                at += 1
            if at < len(self._text):
                break
            ahead = at - self._at
            if not beyond:
                self._at, ahead = at, 0
            if not self._more():
                return ""
            at = self._at + ahead
        if not beyond:
            self._at = at
        return self._text[at]

    def step(self) -> None:
        """Pass the character that `peek` has shown."""
        self._at += 1

    def excerpt(self) -> str:
        """Some text from the present place on."""
        return self._text[self._at : self._at + _EXCERPT]

    def take(self) -> tuple[Value | RowFault, str]:
        """(value or why it cannot be read, its text), and step behind it.

        Raises:
            Cut: the text ends before the value does; the message says where it broke.
        """
        balance, seen = _Balance(), 0
        while True:
            value, end = self._try()
            if end is None:
                end = self._end(balance, seen)
                seen = len(self._text) - self._at
            if end is not None and self._is_whole(end):
                return self._taken(value, end)
            if len(self._text) - self._at > MAX_ROW_BYTES:
                start = self.excerpt()
                return _too_large(self._to_end(balance)), start
            if not self._more():
                raise Cut(value.detail if isinstance(value, RowFault) else "end of file")

    def pass_over(self) -> str:
        """Step behind the value here; a list, object or text is neither parsed nor held.

        Returns:
            The start of its text.

        Raises:
            Cut: the text ends before the value does.
        """
        if self._text[self._at] not in _OPENINGS:
            return self.take()[1]
        while len(self._text) - self._at < _EXCERPT and self._more():
            pass
        start, balance = self.excerpt(), _Balance()
        end = balance.feed(self._text, self._at)
        if end is None:
            self._to_end(balance)
            return start
        start, self._at = start[: end - self._at], end
        return start

    def _try(self) -> tuple[Value | RowFault, int | None]:
        """(value here, its end), or (what is wrong, None)."""
        try:
            value, end = DECODER.raw_decode(self._text, self._at)
            return value, end
        except RowFault as fault:
            return fault, None
        except RecursionError:
            return RowFault("not-json", "nested too deeply"), None
        except ValueError as error:
            return RowFault("not-json", printable(str(error))), None

    def _end(self, balance: _Balance, seen: int) -> int | None:
        """Where the value here ends, judged by its brackets and quotes alone.

        Args:
            balance: has seen so many characters of the value.
        """
        if self._text[self._at : self._at + 1] in _OPENINGS:
            return balance.feed(self._text, self._at + seen)
        found = _SCALAR_END.search(self._text, self._at + 1)
        return found.start() if found else None

    def _is_whole(self, end: int) -> bool:
        """Whether no further text can lengthen a value that ends here, as it might a number."""
        return end < len(self._text) or self._ended or self._text[end - 1] in '}]"'

    def _taken(self, value: Value | RowFault, end: int) -> tuple[Value | RowFault, str]:
        text = self._text[self._at : end]
        self._at = end
        if len(text) > MAX_ROW_BYTES:
            return _too_large(len(text)), text[:_EXCERPT]
        if not text.isascii() and _NOT_UTF8.search(text):
            value = RowFault("not-utf8", "bytes that are not UTF-8")
        elif "\x00" in text:
            value = RowFault("nul-character", "raw U+0000")
        return value, text

    def _to_end(self, balance: _Balance) -> int:
        """Step behind a value of which `balance` has seen what is held; its characters."""
        size, end = len(self._text) - self._at, None
        while end is None:
            self._text, self._at = "", 0
            if not self._more():
                raise Cut(f"a value of more than {size:,} characters has no end")
            end = balance.feed(self._text, 0)
            size += len(self._text) if end is None else end
        self._at = end
        return size


def _too_large(size: int) -> RowFault:
    detail = f"{size:,} characters; read are rows of at most {MAX_ROW_BYTES:,}"
    return RowFault("too-large", detail)


class _Balance:
    """Counts brackets outside strings, over any number of pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        """The last piece ended between a backslash and what it escapes."""

    def feed(self, text: str, at: int) -> int | None:
        """Where the value that began earlier ends in this piece; None if it does not."""
        if self._escaped and at < len(text):
            at, self._escaped = at + 1, False
        while at < len(text):
            if self._in_string:
                at = self._through_string(text, at)
            else:
                found = _MARK.search(text, at)
                if found is None:
                    return None
                at = found.end()
                self._in_string = found.group() == '"'
                self._depth += _STEPS[found.group()]
            if self._depth <= 0 and not self._in_string:
                return at
        return None

    def _through_string(self, text: str, at: int) -> int:
        """The place behind the string's end, or the end of the piece."""
        end = _IN_STRING.match(text, at).end()  # type: ignore[union-attr]  # may match nothing
        if text.startswith('"', end):
            self._in_string = False
            return end + 1
        self._escaped = end < len(text)
        return len(text)
