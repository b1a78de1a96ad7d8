"""Which pairs cannot be contaminated, from counts of their words alone.

Called by screen.py; reads and writes nothing. No subsequence of two wordings is longer than
the number of words that both have, each as often as in the one that has it less often. Most
pairs fall below every rule of classes.py by that bound, thousands at once, before any of
them is compared word by word. Words are counted in `BINS` bins by hash: words that share a
bin raise the bound and never lower it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.corpus.overlap.classes import Sizes, may_hold
from pipeline.corpus.overlap.hash_table import Ints
from pipeline.corpus.overlap.hashing import DIGIT, OPERATOR, Bools, Tokens

BINS = 512
MOST = 255
"""A bin that holds more bounds nothing."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What each of some problems is made of."""

    bins: NDArray[np.uint8]
    """(problems, BINS): words by hash, without numbers and one-letter names."""
    sizes: Sizes
    bounded: Bools
    """Whether the bins hold all words."""

    @classmethod
    def of(cls, tokens: Tokens, problems: int) -> Counts:
        """The counts of problems 0 to `problems` - 1 of a batch."""
        operators = tokens.kinds == OPERATOR
        figures = tokens.single | (tokens.kinds == DIGIT)
        plain = np.flatnonzero(~(operators | figures))
        place = tokens.problem[plain].astype(np.int64) * BINS
        place += (tokens.hashes[plain] % np.uint64(BINS)).astype(np.int64)
        bins = np.bincount(place, minlength=problems * BINS).reshape(problems, BINS)
        parts = [plain, figures, operators]
        words, names, signs = (
            np.bincount(tokens.problem[one], minlength=problems) for one in parts
        )
        masks = np.bincount(tokens.masked().problem, minlength=problems) - words
        bounded = bins.max(axis=1, initial=0) <= MOST
        return cls(bins.astype(np.uint8), Sizes(words, names, signs, masks), bounded)


def hopeful(
    training: Counts, rows: Ints, protected: Counts, items: Ints, run: Ints, short: Bools
) -> Bools:
    """Which pairs may be contaminated though they share no n-gram and are not equal.

    Args:
        rows: the training problem of each pair.
        items: the protected one.
        run: at least so many words as the longest run that both share.
        short: whether the protected problem proves a copy if it stands inside the other.
    """
    common = np.minimum(training.bins[rows], protected.bins[items]).sum(axis=1, dtype=np.int64)
    mine, theirs = protected.sizes.take(items), training.sizes.take(rows)
    inside = short & (common >= mine.words)
    inside &= (mine.names <= theirs.names) & (mine.signs <= theirs.signs)
    bounded = training.bounded[rows] & protected.bounded[items]
    result: Bools = inside | ~bounded | may_hold(common, run, mine, theirs)
    return result
