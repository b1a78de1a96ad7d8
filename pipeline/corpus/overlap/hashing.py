"""Thousands of problems to hashed tokens at once, without a Python object a token.

Called by screen.py and protected_runs.py; reads and writes nothing. `cut` gives every token of
tokens.tokens_of a 64-bit hash: prefix sums of a polynomial over the bytes, so that a
token costs the same however long it is. Equal tokens have equal hashes; unequal ones
share one about once in 2^64 pairs. What is found by hash is therefore checked on the
texts themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pipeline.corpus.overlap.tokens import (
    LAYOUT,
    OPERATORS,
    PLAIN_MARKS,
    REPLACED,
    SPELLINGS,
    plain,
)

U64 = NDArray[np.uint64]
Bools = NDArray[np.bool_]

SEPARATOR, LETTER, DIGIT, OPERATOR = range(4)

MASKED = np.uint64(1)
"""Hash of a masked run."""

_BYTE_BASE = 0x9E3779B97F4A7C15
_WORD_BASE = 0xC2B2AE3D27D4EB4F
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_PAD = b"\0" * 8
_DELETED = b"".join(old.encode() for old, new in REPLACED if len(old) == 1 and not new)
_FOLD = bytes(range(256)).lower()
_COMMA, _DOT, _BACKSLASH, _BRACE = b",.\\{"


def _classes() -> NDArray[np.uint8]:
    kinds = np.zeros(256, np.uint8)
    kinds[ord("a") : ord("z") + 1] = LETTER
    kinds[0x80:] = LETTER
    kinds[ord("0") : ord("9") + 1] = DIGIT
    kinds[[ord(one) for one in OPERATORS]] = OPERATOR
    return kinds


_CLASS = _classes()
_CLASS_OF_BYTE = _CLASS.tobytes()


@lru_cache(maxsize=64)
def _powers(base: int, bits: int) -> tuple[U64, U64]:
    """(base^i, base^-i) modulo 2^64 for i below 2^bits; the base is odd."""
    tables = []
    for factor in (base, pow(base, -1, 2**64)):
        table = np.full(1 << bits, factor, np.uint64)
        table[0] = 1
        tables.append(np.multiply.accumulate(table))
    return tables[0], tables[1]


def _sums(values: U64 | NDArray[np.uint8], base: int) -> tuple[U64, U64]:
    """Prefix sums of values·base^i, with a leading 0, and the inverse powers."""
    powers, inverses = _powers(base, max(12, len(values).bit_length()))
    sums = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values * powers[: len(values)], out=sums[1:])
    return sums, inverses


def _mixed(hashes: U64) -> U64:
    hashes = (hashes ^ (hashes >> np.uint64(32))) * _MIX
    mixed: U64 = hashes ^ (hashes >> np.uint64(29))
    return mixed


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a batch, in order."""

    hashes: U64
    kinds: NDArray[np.uint8]
    """LETTER, DIGIT or OPERATOR."""
    single: Bools
    """Names of one character."""
    problem: NDArray[np.int32]
    """Index of the problem in the batch."""

    def take(self, chosen: Bools | NDArray[np.intp]) -> Tokens:
        """A part of the tokens."""
        return Tokens(
            self.hashes[chosen], self.kinds[chosen], self.single[chosen], self.problem[chosen]
        )

    def only(self, rows: NDArray[np.int64], problems: int) -> Tokens:
        """The tokens of some problems of the batch, which are counted anew from 0."""
        places = np.full(problems, -1, np.int32)
        places[rows] = np.arange(len(rows))
        problem = places[self.problem]
        chosen = problem >= 0
        kept = self.take(chosen)
        return Tokens(kept.hashes, kept.kinds, kept.single, problem[chosen])

    def words(self) -> Tokens:
        """The tokens without operators."""
        return self.take(self.kinds != OPERATOR)

    def masked(self) -> Tokens:
        """Words with every run of numbers and one-letter names as one masked token."""
        words = self.words()
        mask = words.single | (words.kinds == DIGIT)
        again = np.zeros(len(mask), np.bool_)
        again[1:] = mask[1:] & mask[:-1] & (words.problem[1:] == words.problem[:-1])
        hashes = np.where(mask, MASKED, words.hashes)
        return Tokens(hashes, words.kinds, words.single, words.problem).take(~again)

    def starts(self, size: int) -> NDArray[np.intp]:
        """Where a run of `size` tokens within one problem begins."""
        count = max(0, len(self.problem) - size + 1)
        return np.flatnonzero(self.problem[size - 1 :][:count] == self.problem[:count])

    def hashes_of(self, starts: NDArray[np.intp], size: int) -> U64:
        """Hash of the run of `size` tokens that begins at each of these places."""
        sums, inverses = _sums(self.hashes, _WORD_BASE)
        return _mixed((sums.take(starts + size) - sums.take(starts)) * inverses.take(starts))

    def windows(self, size: int) -> tuple[U64, NDArray[np.int32]]:
        """(hash, problem) of every run of `size` tokens within one problem."""
        starts = self.starts(size)
        return self.hashes_of(starts, size), self.problem.take(starts)

    def wholes(self, problems: int) -> U64:
        """One hash of all tokens of each problem; 0 for one without any."""
        sums, inverses = _sums(self.hashes, _WORD_BASE)
        edges = np.searchsorted(self.problem, np.arange(problems + 1))
        starts, stops = edges[:-1], edges[1:]
        hashes = _mixed((sums[stops] - sums[starts]) * inverses[starts])
        hashes[starts == stops] = 0
        return hashes


def _joined(problems: Sequence[str]) -> bytes:
    """The problems as bytes in lower case, NUL between them."""
    whole = "\0".join(problems)
    texts = list(problems)
    odd = [place for place, text in enumerate(texts) if not text.isascii()]
    for mark in PLAIN_MARKS:
        if mark in whole:
            odd += [place for place, text in enumerate(texts) if mark in text]
    for place in set(odd):
        texts[place] = plain(texts[place])
    data = "\0".join(texts).encode("utf-8", "surrogatepass")
    for old, new in REPLACED:
        if len(old) > 1:
            data = new.encode().join(data.split(old.encode()))
    return data.translate(_FOLD, _DELETED)


def _digit_at(text: NDArray[np.uint8], places: NDArray[np.intp]) -> Bools:
    digits: Bools = _CLASS[text[places]] == DIGIT
    return digits


def _without_thousands(data: bytes) -> bytes:
    """The bytes without commas between a digit and exactly three more."""
    text = np.frombuffer(data, np.uint8)
    places = np.flatnonzero(text == _COMMA)
    drop = _digit_at(text, places - 1) & ~_digit_at(text, places + 4)
    for step in (1, 2, 3):
        drop &= _digit_at(text, places + step)
    return np.delete(text, places[drop]).tobytes() if drop.any() else data


def cut(problems: Sequence[str]) -> Tokens:
    """The tokens of all problems, as tokens.tokens_of cuts them one by one."""
    data = _without_thousands(b"\0" + _joined(problems) + _PAD)
    text = np.frombuffer(data, np.uint8)
    nuls = np.flatnonzero(text[: -len(_PAD)] == 0)
    if len(nuls) != max(1, len(problems)):
        return cut([problem.replace("\0", " ") for problem in problems])
    kinds = np.frombuffer(bytearray(data.translate(_CLASS_OF_BYTE)), np.uint8)
    dots = np.flatnonzero(text == _DOT)
    inner = dots[_digit_at(text, dots - 1) & _digit_at(text, dots + 1)]
    kinds[inner] = DIGIT
    edge = kinds[1:] != kinds[:-1]
    edge |= kinds[1:] == OPERATOR
    edges = np.flatnonzero(edge) + 1
    token = np.flatnonzero(kinds[edges] != SEPARATOR)
    starts, stops = edges[token], edges[token + 1]  # what follows the last token is an edge
    sums, inverses = _sums(text, _BYTE_BASE)
    hashes = _mixed((sums[stops] - sums[starts]) * inverses[starts])
    sizes = np.diff(np.searchsorted(starts, nuls), append=len(starts))
    numbers = np.repeat(np.arange(len(nuls), dtype=np.int32), sizes)
    tokens = Tokens(hashes, kinds[starts], _single(text, starts, stops), numbers)
    return _folded(tokens, text, starts, stops)


def _single(text: NDArray[np.uint8], starts: NDArray[np.intp], stops: NDArray[np.intp]) -> Bools:
    """Which tokens are names of one character, however many bytes it has."""
    sizes = stops - starts
    single = (sizes == 1) & (text[starts] >= ord("a"))
    wide = np.flatnonzero((text[starts] >= 0x80) & (sizes <= 4))
    lead = text[starts[wide]]
    single[wide] = sizes[wide] == 2 + (lead >= 0xE0).astype(np.intp) + (lead >= 0xF0)
    result: Bools = single
    return result


def _folded(
    tokens: Tokens, text: NDArray[np.uint8], starts: NDArray[np.intp], stops: NDArray[np.intp]
) -> Tokens:
    """The tokens with layout commands gone and spellings of commands made one."""
    tables = _command_tables()
    commands = np.flatnonzero((text[starts - 1] == _BACKSLASH) & (tokens.kinds == LETTER))
    named = tokens.hashes[commands]
    keep = np.ones(len(starts), np.bool_)
    keep[commands[_member(named, tables.layout)]] = False
    opening = commands[_member(named, tables.opening)]
    opening = opening[opening + 1 < len(starts)]
    after = opening + 1
    environment = (starts[after] == stops[opening] + 1) & (text[stops[opening]] == _BRACE)
    environment &= tokens.kinds[after] == LETTER
    keep[after[environment]] = False
    place = np.searchsorted(tables.spelled, named)
    place[place == len(tables.spelled)] = 0
    known = tables.spelled[place] == named
    respelled, place = commands[known], place[known]
    tokens.hashes[respelled] = tables.meant[place]
    tokens.kinds[respelled] = tables.kinds[place]
    return tokens if keep.all() else tokens.take(keep)


def _member(hashes: U64, ordered: U64) -> Bools:
    place = np.searchsorted(ordered, hashes)
    place[place == len(ordered)] = 0
    found: Bools = ordered[place] == hashes
    return found


@dataclass(frozen=True, slots=True)
class _CommandTables:
    layout: U64
    opening: U64
    spelled: U64
    meant: U64
    kinds: NDArray[np.uint8]


def _hashes_of(names: Iterable[str]) -> U64:
    """Hash of each name, as `cut` gives it to a token."""
    found = []
    for name in names:
        values = np.frombuffer(name.encode(), np.uint8)
        found.append(_mixed(_sums(values, _BYTE_BASE)[0][-1:])[0])
    return np.array(found, np.uint64)


@lru_cache(maxsize=1)
def _command_tables() -> _CommandTables:
    spelled = _hashes_of(SPELLINGS)
    order = np.argsort(spelled)
    kinds = [OPERATOR if meant in OPERATORS else LETTER for meant in SPELLINGS.values()]
    return _CommandTables(
        np.sort(_hashes_of(LAYOUT)),
        np.sort(_hashes_of(("begin", "end"))),
        spelled[order],
        _hashes_of(SPELLINGS.values())[order],
        np.array(kinds, np.uint8)[order],
    )
