"""Which problems of a batch are worth comparing with which protected ones.

Called by search.py and bench; reads and writes nothing. A pair is worth it when both share a
run of words, enough masked wording, the whole text, or the rarest part of a short protected
problem, unless counts show that no rule can hold for it (bounds.py). Everything is looked up
by hash for the whole batch; a hash that only looks alike costs a comparison and decides
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.base.records import Trace, from_line
from pipeline.corpus.overlap.bounds import Counts, hopeful
from pipeline.corpus.overlap.classes import RUN_WORDS
from pipeline.corpus.overlap.hash_table import Ints
from pipeline.corpus.overlap.hashing import U64, Bools, Tokens, cut
from pipeline.corpus.overlap.protected_index import MIN_CONTAINED_TOKENS, ProtectedIndex
from pipeline.corpus.overlap.protected_runs import MASKED_WORDS, ProtectedRuns

LEAST_MASKED, MASKED_SHARE = 2, 0.2
"""Masked runs that a pair must share: so many, and this share of the shorter one's."""
MAX_PAIRS = 16
"""Protected problems with which a problem is compared, those that share most first."""
BATCH_LINES = 1000
"""Lines that are screened at once."""

_FIRM = 1_000
"""Above every count of masked runs."""
_ID = slice(7, 23)
_HEAD = b'{"id":"'
_BETWEEN, _TAIL = b'","problem":"', b'","gold":"'
_PROBLEM_AT = 23 + len(_BETWEEN)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A problem of a batch and the protected ones to compare it with."""

    row: int
    """Index in the batch."""
    problem: str
    items: list[int]
    """Indices of protected problems."""


class Screen:
    """The search for suspects.

    Args:
        index: what is protected.
    """

    def __init__(self, index: ProtectedIndex) -> None:
        self.runs = ProtectedRuns.of(index)
        self.protected = max(1, len(index.items))
        self.short = np.array([index.is_short(one) for one in range(len(index.items))], np.bool_)
        self.counts = Counts.of(cut([item.problem for item in index.items]), len(index.items))

    def suspects(self, problems: Sequence[str]) -> list[Suspect]:
        """The problems worth comparing, in order, each with at most `MAX_PAIRS` others."""
        tokens = cut(problems)
        return _listed(*self._candidates(tokens, len(problems))[:2], problems)

    def hopeful(self, problems: Sequence[str]) -> list[Suspect]:
        """The same without pairs that no rule could call contaminated."""
        tokens = cut(problems)
        rows, items, whole = self._candidates(tokens, len(problems))
        suspects, place = np.unique(rows, return_inverse=True)
        mine = tokens.only(suspects, len(problems))
        pairs = self._pair(place, items)
        words, runs = mine.words(), self.runs
        grams = self._pair(*runs.grams.look_up(*words.windows(runs.gram_size))[:2])
        long = self._pair(*runs.long.look_up(*words.windows(RUN_WORDS))[:2])
        # A run of n words is n - RUN_WORDS + 1 runs of RUN_WORDS words.
        run = RUN_WORDS - 1 + _counts(np.sort(long), pairs)
        counts, short = Counts.of(mine, len(suspects)), self.short[items]
        kept = whole | np.isin(pairs, grams)
        kept |= hopeful(counts, place, self.counts, items, run, short)
        return _listed(rows[kept], items[kept], problems)

    def _candidates(self, tokens: Tokens, problems: int) -> tuple[Ints, Ints, Bools]:
        """(row, protected problem) of every pair; whether the row's text is a protected one."""
        runs = self.runs
        every = np.arange(problems, dtype=np.int32)
        same = runs.wholes.look_up(tokens.wholes(problems), every)[:2]
        found = [
            self._weighed(*same, 3),
            self._weighed(*runs.anchors.look_up(*tokens.windows(MIN_CONTAINED_TOKENS))[:2], 2),
            self._weighed(*runs.seeds.look_up(*tokens.words().windows(runs.seed_size))[:2], 2),
            self._alike(tokens, problems),
        ]
        rows, items = _ranked(np.concatenate(found), self.protected)
        return rows, items, np.isin(rows, same[0])

    def _pair(self, rows: Ints, items: Ints) -> Ints:
        """One number for each pair."""
        return rows * self.protected + items

    def _weighed(self, rows: Ints, items: Ints, weight: int) -> Ints:
        """(pair, weight) of every find."""
        pairs, counts = np.unique(self._pair(rows, items), return_counts=True)
        return np.stack([pairs, weight * _FIRM + counts], axis=1)

    def _alike(self, tokens: Tokens, problems: int) -> Ints:
        """Pairs that share enough different masked runs."""
        hashes, places = tokens.masked().windows(MASKED_WORDS)
        own = np.bincount(places, minlength=problems)
        rows, items, keys = self.runs.masked.look_up(hashes, places)
        pairs = self._pair(rows, items)
        if len(pairs) == 0:
            return np.zeros((0, 2), np.int64)
        order = np.lexsort((keys, pairs))
        pairs, keys = pairs[order], keys[order]
        new = np.ones(len(pairs), np.bool_)
        new[1:] = (pairs[1:] != pairs[:-1]) | (keys[1:] != keys[:-1])
        pairs, counts = np.unique(pairs[new], return_counts=True)
        rows, items = np.divmod(pairs, self.protected)
        shorter = np.minimum(own[rows], self.runs.masked_runs[items])
        enough = counts >= np.maximum(LEAST_MASKED, MASKED_SHARE * shorter)
        return np.stack([pairs[enough], counts[enough]], axis=1)


def _ranked(found: Ints, protected: int) -> tuple[Ints, Ints]:
    """(row, protected problem) by row, for each the `MAX_PAIRS` that share most, those first."""
    pairs, place = np.unique(found[:, 0], return_inverse=True)
    weights = np.bincount(place, found[:, 1], len(pairs))
    rows, items = np.divmod(pairs, protected)
    order = np.lexsort((items, -weights, rows))
    rows, items = rows[order], items[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
    return rows[rank < MAX_PAIRS], items[rank < MAX_PAIRS]


def _counts(ordered: Ints, wanted: Ints) -> Ints:
    """How often each number stands in an ascending list."""
    return np.searchsorted(ordered, wanted, "right") - np.searchsorted(ordered, wanted, "left")


def _listed(rows: Ints, items: Ints, problems: Sequence[str]) -> list[Suspect]:
    suspects: list[Suspect] = []
    for row, item in zip(rows.tolist(), items.tolist(), strict=True):
        if not suspects or suspects[-1].row != row:
            suspects.append(Suspect(row, problems[row], []))
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
