"""Which problems of a batch are worth comparing with which protected ones.

Called by judgement.py and bench; reads and writes nothing. A pair is worth it when both
share a run of words, enough masked wording, the whole text, or the rarest part of a short
protected problem. Everything is looked up by hash for the whole batch; a hash that only
looks alike costs a comparison and decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.base.records import Trace, from_line
from pipeline.corpus.overlap.hashing import U64, Tokens, cut, run_hashes
from pipeline.corpus.overlap.protected_index import (
    LEAST_MASKED,
    MASKED_SHARE,
    MASKED_WORDS,
    MIN_CONTAINED_TOKENS,
    Gram,
    ProtectedIndex,
)

MAX_PAIRS = 16
"""Protected problems with which a problem is compared, those that share most first."""
BATCH_LINES = 1000
"""Lines that are screened at once."""

_FILTER_BITS = 22
_FIRM = 1_000
"""Above every count of masked runs."""
_ID = slice(7, 23)
_HEAD = b'{"id":"'
_BETWEEN, _TAIL = b'","problem":"', b'","gold":"'
_PROBLEM_AT = 23 + len(_BETWEEN)

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Suspect:
    """A problem of a batch and the protected ones to compare it with."""

    row: int
    """Index in the batch."""
    problem: str
    items: list[int]
    """Indices of protected problems."""


@dataclass(frozen=True, slots=True)
class HashTable:
    """Hash → protected problems; a bitmap answers most questions at once."""

    keys: U64
    """Ascending, each once."""
    starts: Ints
    items: Ints
    """Problems of key k: items[starts[k]:starts[k + 1]]."""
    maybe: NDArray[np.bool_]

    @classmethod
    def build(cls, hashes: U64, items: Sequence[int]) -> HashTable:
        """A table of (hash, protected problem) pairs."""
        pairs = sorted(set(zip(hashes.tolist(), items, strict=True)))
        ordered = np.array([key for key, _ in pairs], np.uint64)
        keys, starts = np.unique(ordered, return_index=True)
        maybe = np.zeros(1 << _FILTER_BITS, np.bool_)
        maybe[keys >> np.uint64(64 - _FILTER_BITS)] = True
        edges = np.append(starts, len(pairs)).astype(np.int64)
        return cls(keys, edges, np.array([item for _, item in pairs], np.int64), maybe)

    def look_up(self, hashes: U64, rows: NDArray[np.int32]) -> tuple[Ints, Ints, Ints]:
        """(row, protected problem, key) of every hash that is in the table."""
        likely = np.flatnonzero(self.maybe[hashes >> np.uint64(64 - _FILTER_BITS)])
        if not len(likely) or not len(self.keys):
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        wanted = hashes[likely]
        keys = np.searchsorted(self.keys, wanted)
        keys[keys == len(self.keys)] = 0
        found = self.keys[keys] == wanted
        keys, rows = keys[found], rows[likely[found]]
        sizes = self.starts[keys + 1] - self.starts[keys]
        before = np.cumsum(sizes) - sizes
        places = np.arange(sizes.sum()) + np.repeat(self.starts[keys] - before, sizes)
        return np.repeat(rows, sizes).astype(np.int64), self.items[places], np.repeat(keys, sizes)


class Screen:
    """The search for suspects.

    Args:
        index: what is protected.
    """

    def __init__(self, index: ProtectedIndex) -> None:
        self.size = index.seed_size
        self.runs = np.array(index.masked_runs or [0], np.int64)
        self.protected = max(1, len(index.items))
        self.seeds = _table(index.seeds)
        self.masked = _table(index.masked)
        self.anchors = _table(index.anchors)
        texts = {tuple(text.split(" ")): items for text, items in index.by_text.items()}
        self.wholes = _table(texts)

    def suspects(self, problems: Sequence[str]) -> list[Suspect]:
        """The problems worth comparing, in order, each with at most `MAX_PAIRS` others."""
        tokens = cut(problems)
        whole = tokens.wholes(len(problems))
        rows = np.arange(len(problems), dtype=np.int32)
        pairs = [
            self._pairs(*self.wholes.look_up(whole, rows)[:2], 3),
            self._pairs(*self.anchors.look_up(*tokens.windows(MIN_CONTAINED_TOKENS))[:2], 2),
            self._pairs(*self.seeds.look_up(*tokens.words().windows(self.size))[:2], 2),
            self._alike(tokens, len(problems)),
        ]
        return _ranked(np.concatenate(pairs), self.protected, problems)

    def screen(self, lines: Sequence[bytes]) -> list[Suspect]:
        """The suspects among lines of Trace rows, all of them in one batch."""
        return self.suspects(problems_of(lines))

    def _pairs(self, rows: Ints, items: Ints, weight: int) -> Ints:
        """(pair, weight) of every find; a pair is row · protected + item."""
        pairs, counts = np.unique(rows * self.protected + items, return_counts=True)
        return np.stack([pairs, weight * _FIRM + counts], axis=1)

    def _alike(self, tokens: Tokens, problems: int) -> Ints:
        """Pairs that share enough different masked runs."""
        hashes, places = tokens.masked().windows(MASKED_WORDS)
        own = np.bincount(places, minlength=problems)
        rows, items, keys = self.masked.look_up(hashes, places)
        pairs = rows * self.protected + items
        if len(pairs) == 0:
            return np.zeros((0, 2), np.int64)
        order = np.lexsort((keys, pairs))
        pairs, keys = pairs[order], keys[order]
        new = np.ones(len(pairs), np.bool_)
        new[1:] = (pairs[1:] != pairs[:-1]) | (keys[1:] != keys[:-1])
        pairs, counts = np.unique(pairs[new], return_counts=True)
        rows, items = np.divmod(pairs, self.protected)
        shorter = np.minimum(own[rows], self.runs[items])
        enough = counts >= np.maximum(LEAST_MASKED, MASKED_SHARE * shorter)
        return np.stack([pairs[enough], counts[enough]], axis=1)


def _table(runs: Mapping[Gram, list[int]]) -> HashTable:
    hashes = run_hashes(runs)
    sizes = [len(items) for items in runs.values()]
    return HashTable.build(np.repeat(hashes, sizes), [i for held in runs.values() for i in held])


def _ranked(found: Ints, protected: int, problems: Sequence[str]) -> list[Suspect]:
    """Suspects in order, the protected problems that each shares most with first."""
    if not len(found):
        return []
    pairs, place = np.unique(found[:, 0], return_inverse=True)
    weights = np.bincount(place, found[:, 1])
    rows, items = np.divmod(pairs, protected)
    order = np.lexsort((items, -weights, rows))
    suspects: list[Suspect] = []
    for row, item in zip(rows[order].tolist(), items[order].tolist(), strict=True):
        if not suspects or suspects[-1].row != row:
            suspects.append(Suspect(row, problems[row], []))
        if len(suspects[-1].items) < MAX_PAIRS:
            suspects[-1].items.append(item)
    return suspects


def problems_of(lines: Sequence[bytes]) -> list[str]:
    """The problem of each line of a Trace file; the rest of the line is not parsed.

    Raises:
        UserError: a line is no Trace.
    """
    quoted = [_quoted_problem(line) for line in lines]
    try:
        problems: list[str] = json.loads(b"[" + b",".join(quoted) + b"]")
    except ValueError:
        problems = []
    if len(problems) != len(lines):
        return [from_line(Trace, line, "a row of traces").problem for line in lines]
    return problems


def _quoted_problem(line: bytes) -> bytes:
    """The JSON string of a line's problem, if the line is as records.to_line writes it.

    Inside a string every quote is escaped, so the first `","gold":"` ends the problem.
    """
    stop = line.find(_TAIL, _PROBLEM_AT)
    if stop < 0 or line[:7] != _HEAD or line[23:_PROBLEM_AT] != _BETWEEN:
        problem = from_line(Trace, line, "a row of traces").problem
        return json.dumps(problem).encode()
    return line[_PROBLEM_AT - 1 : stop + 1]


def ids_of(lines: Sequence[bytes]) -> U64:
    """The problem id of each line of a Trace file."""
    spelled = [
        line[_ID]
        if line[:7] == _HEAD and line[23:_PROBLEM_AT] == _BETWEEN
        else from_line(Trace, line, "a row of traces").id.encode()
        for line in lines
    ]
    return np.frombuffer(bytes.fromhex(b"".join(spelled).decode()), ">u8").astype(np.uint64)
