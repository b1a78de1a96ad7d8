"""Which documents share a bin: best-fit decreasing over their lengths.

Pure functions over arrays of token counts; buckets.py and bands.py call them. Every
document stays whole. Longest first, each goes where it leaves the least room, and of
several such bins into the one that was touched last. Documents of one length move
together: a bin with the least room that suffices keeps it until the next one no longer
fits, so a step settles all documents of one length in all bins of one amount of room,
whatever their number. What is left to do for each document is two stable radix sorts.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pipeline.base.errors import UserError

Int32s = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Packing:
    """Documents in the order in which they are stored."""

    documents: Int32s
    """Numbers of the documents, bin by bin, int32 [D]."""
    counts: Int32s
    """Documents of each bin, int32 [S]."""

    def bins(self) -> list[list[int]]:
        """One list of document numbers a bin."""
        stops = np.cumsum(self.counts).tolist()
        numbers = self.documents.tolist()
        return [numbers[start:stop] for start, stop in pairwise([0, *stops])]


def best_fit_decreasing(lengths: Int32s, bin_tokens: int) -> Packing:
    """Put documents together into bins.

    Takes less than 60 bytes of memory a document, the lengths included.

    Args:
        lengths: tokens of every document, each from 1 to `bin_tokens`, int32 [D].
        bin_tokens: most tokens of one bin.

    Returns:
        Bins in the order in which they were opened, longest document first; equal
        documents in their order. Equal input gives equal output.

    Raises:
        UserError: a document is empty or longer than a bin.
    """
    _require_fit(lengths, bin_tokens)
    rooms = Rooms(bin_tokens)
    homes = np.empty(len(lengths), dtype=np.int32)
    counts = np.bincount(lengths)
    start = 0
    for size in np.flatnonzero(counts)[::-1].tolist():
        stop = start + int(counts[size])
        rooms.put(size, homes[start:stop])
        start = stop
    stored = stable_order(homes)
    order = stable_order(np.int32(bin_tokens) - lengths)
    return Packing(order[stored], np.bincount(homes, minlength=rooms.opened).astype(np.int32))


def fill(tokens: int, bins: int, bin_tokens: int) -> float:
    """Share of the room of `bins` that documents take; 0 for no bins."""
    room = bins * bin_tokens
    return tokens / room if room else 0.0


class Rooms:
    """Open bins by the tokens that they still have room for.

    Args:
        bin_tokens: most tokens of one bin.
    """

    def __init__(self, bin_tokens: int) -> None:
        self.opened = 0
        """Bins so far."""
        self._bin_tokens = bin_tokens
        self._amounts: list[int] = []  # that some bin has, ascending
        self._stacks: dict[int, list[Int32s]] = {}  # amount → its bins, touched last at the end

    def put(self, size: int, homes: Int32s, *, opens: bool = True) -> int:
        """Find a bin for documents of one size; write the numbers into `homes`.

        Args:
            size: tokens of each, at most those of a bin.
            homes: as long as there are documents.
            opens: whether bins are opened for those that fit into no open one.

        Returns:
            How many have a bin; all of them if `opens`.
        """
        done = 0
        while done < len(homes):
            place = bisect_left(self._amounts, size)
            fresh = place == len(self._amounts)
            if fresh and not opens:
                break
            room = self._bin_tokens if fresh else self._amounts[place]
            each = room // size
            wanted = -(-(len(homes) - done) // each)
            chosen = self._open(wanted) if fresh else self._take(place, wanted)
            put = min(len(chosen) * each, len(homes) - done)
            homes[done : done + put] = np.repeat(chosen, each)[:put] if each > 1 else chosen
            done += put
            full = put // each
            self._give(room - each * size, chosen[:full])
            self._give(room - (put - full * each) * size, chosen[full:])
        return done

    def _open(self, count: int) -> Int32s:
        first = self.opened
        self.opened += count
        return np.arange(first, self.opened, dtype=np.int32)

    def _take(self, place: int, most: int) -> Int32s:
        """Up to `most` bins of one amount, touched last first."""
        amount = self._amounts[place]
        stack = self._stacks[amount]
        taken: list[Int32s] = []
        while stack and most:
            top = stack.pop()
            if len(top) > most:
                stack.append(top[:-most])
                top = top[-most:]
            taken.append(top[::-1])
            most -= len(top)
        if not stack:
            del self._stacks[amount], self._amounts[place]
        return np.concatenate(taken) if len(taken) > 1 else taken[0]

    def _give(self, amount: int, bins: Int32s) -> None:
        if not amount or not len(bins):
            return
        if amount not in self._stacks:
            self._stacks[amount] = []
            insort(self._amounts, amount)
        self._stacks[amount].append(bins)


def stable_order(keys: Int32s) -> Int32s:
    """Places that sort non-negative keys, equal ones in their order; int32, as `keys`.

    Numpy sorts 16-bit keys by radix, in linear time; so the two halves are sorted in turn.
    """
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable").astype(np.int32)
    high = (keys >> 16).astype(np.uint16)
    if high.any():
        order = order[np.argsort(high[order], kind="stable")]
    return order


def _require_fit(lengths: Int32s, bin_tokens: int) -> None:
    wrong = np.flatnonzero((lengths < 1) | (lengths > bin_tokens))
    if wrong.size:
        number = int(wrong[0])
        raise UserError(
            f"document {number} has {lengths[number]} tokens, a bin {bin_tokens}",
            "Drop what does not fit before packing: documents are never cut.",
        )
