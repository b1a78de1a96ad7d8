"""The runs of tokens by which screen.py finds what to compare with a protected problem.

Called by screen.py; reads and writes nothing. The runs are hashed as those of training
problems are (hashing.py). An exact run of `SEED_WORDS` words, enough masked runs, the whole
text, or the rarest part of a short problem make a pair worth comparing; a long run that
both share is what the rules on runs of words ask for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.corpus.overlap.classes import RUN_WORDS
from pipeline.corpus.overlap.hash_table import HashTable, Ints, distinct_pairs
from pipeline.corpus.overlap.hashing import MASKED, U64, Bools, Tokens, cut
from pipeline.corpus.overlap.protected_index import (
    MIN_CONTAINED_TOKENS,
    MIN_WORDING_PROBLEMS,
    ProtectedIndex,
    is_wording,
)
from pipeline.corpus.overlap.tokens import ngrams

SEED_WORDS = 10
"""Words of an exact run that makes a pair worth comparing."""
MASKED_WORDS = 5
"""Words of a masked run that speaks for a pair to be compared."""
COMMON_MASKED = 8
"""A masked run in more protected problems says nothing about any of them."""


@dataclass(frozen=True, slots=True)
class ProtectedRuns:
    """Runs of all protected problems, by hash."""

    seed_size: int
    """Words of a seed."""
    gram_size: int
    """Words of an n-gram that is evidence."""
    seeds: HashTable
    masked: HashTable
    anchors: HashTable
    """The rarest run of `MIN_CONTAINED_TOKENS` tokens of every short problem."""
    wholes: HashTable
    grams: HashTable
    """N-grams that are evidence."""
    long: HashTable
    """All runs of `RUN_WORDS` words."""
    masked_runs: Ints
    """How many masked runs a protected problem has in `masked`, by index."""

    @classmethod
    def of(cls, index: ProtectedIndex) -> ProtectedRuns:
        """The runs of what is protected."""
        problems = [item.problem for item in index.items]
        tokens = cut(problems)
        words = tokens.words()
        seed_size = min(SEED_WORDS, index.size)
        masked = _masked(tokens.masked())
        whole = tokens.wholes(len(problems))
        filled = np.flatnonzero(whole)
        long, holders = words.windows(RUN_WORDS)
        grams = words.starts(index.size)
        grams = grams[~_wording(index, words.hashes_of(grams, index.size), words.problem[grams])]
        return cls(
            seed_size,
            index.size,
            _seeds(index, words, words.hashes_of(grams, seed_size), seed_size),
            masked,
            _anchors(index, tokens),
            HashTable.build(whole[filled], filled),
            _table(words.hashes_of(grams, index.size), words.problem[grams]),
            _table(long, holders),
            np.bincount(masked.items, minlength=max(1, len(problems))),
        )


def _table(hashes: U64, items: NDArray[np.int32]) -> HashTable:
    return HashTable.build(hashes, items.astype(np.int64))


def _seeds(index: ProtectedIndex, words: Tokens, certain: U64, size: int) -> HashTable:
    """Runs that are no wording, and those with which an n-gram begins that is none."""
    hashes, items = words.windows(size)
    kept = ~_wording(index, hashes, items) | np.isin(hashes, certain)
    return _table(hashes[kept], items[kept])


def _wording(index: ProtectedIndex, hashes: U64, items: NDArray[np.int32]) -> Bools:
    """Which runs enough different problems of one set hold (`is_wording`)."""
    runs, held = distinct_pairs(hashes, items.astype(np.int64))
    keys, starts, sizes = np.unique(runs, return_index=True, return_counts=True)
    often = np.flatnonzero(sizes >= MIN_WORDING_PROBLEMS)
    found = [
        key
        for key in often.tolist()
        if is_wording(index, held[starts[key] : starts[key] + sizes[key]].tolist())
    ]
    return np.isin(hashes, keys[found])


def _masked(masked: Tokens) -> HashTable:
    """Masked runs in few problems that are words for the most part."""
    starts = masked.starts(MASKED_WORDS)
    masks = np.cumsum(np.append(np.zeros(1, np.int64), masked.hashes == MASKED))
    starts = starts[masks[starts + MASKED_WORDS] - masks[starts] <= MASKED_WORDS // 2]
    items = masked.problem[starts].astype(np.int64)
    hashes, items = distinct_pairs(masked.hashes_of(starts, MASKED_WORDS), items)
    sizes = np.unique(hashes, return_counts=True)[1]
    rare = np.repeat(sizes <= COMMON_MASKED, sizes)
    return HashTable.build(hashes[rare], items[rare])


def _anchors(index: ProtectedIndex, tokens: Tokens) -> HashTable:
    """The rarest run of every short problem; of equally rare ones the first by its words."""
    size = MIN_CONTAINED_TOKENS
    starts = tokens.starts(size)
    hashes, items = tokens.hashes_of(starts, size), tokens.problem[starts]
    place, sizes = np.unique(hashes, return_inverse=True, return_counts=True)[1:]
    counts = sizes[place]
    short = [item for item in range(len(index.items)) if index.is_short(item)]
    rarest = []
    for item in short:
        first, last = np.searchsorted(items, [item, item + 1]).tolist()
        runs = ngrams(index.shapes[item].token_list, size)
        rarest.append(
            min(zip(counts[first:last].tolist(), runs, range(first, last), strict=True))[2]
        )
    return HashTable.build(hashes[rarest], np.array(short, np.int64))
