"""Which documents share a sequence: best-fit decreasing over their lengths.

Pure functions over token counts; `python -m pipeline.tokenize` calls them. Every
document stays whole. Longest first, each goes where it leaves the least room, so
the cost is one binary search among the distinct amounts of free room (never more
than `sequence_tokens` of them), whatever the number of documents.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.base.errors import UserError


def best_fit_decreasing(lengths: Sequence[int], sequence_tokens: int) -> list[list[int]]:
    """Put documents together into sequences.

    Args:
        lengths: tokens of every document, each from 1 to `sequence_tokens`.
        sequence_tokens: most tokens of one sequence.

    Returns:
        One list of document numbers a sequence; equal input gives equal output.
        Sequences come in the order in which they were opened, longest document
        first; the order of training is the sampler's business.

    Raises:
        UserError: a document is empty or longer than a sequence.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    _require_fit(sizes, sequence_tokens)
    sequences: list[list[int]] = []
    rooms: list[int] = []  # distinct amounts of free room, ascending
    having: dict[int, list[int]] = {}  # free room -> the sequences that have it
    order = np.argsort(-sizes, kind="stable")
    for document, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        place = bisect_left(rooms, size)
        if place == len(rooms):
            number, left = len(sequences), sequence_tokens - size
            sequences.append([document])
        else:
            room = rooms[place]
            number, left = having[room].pop(), room - size
            sequences[number].append(document)
            if not having[room]:
                del having[room], rooms[place]
        if left in having:
            having[left].append(number)
        elif left:
            having[left] = [number]
            insort(rooms, left)
    return sequences


def fill(lengths: Sequence[int], sequences: int, sequence_tokens: int) -> float:
    """Share of the room in `sequences` that documents take; 0 for no sequences."""
    room = sequences * sequence_tokens
    return sum(lengths) / room if room else 0.0


def _require_fit(sizes: NDArray[np.int64], sequence_tokens: int) -> None:
    wrong = np.flatnonzero((sizes < 1) | (sizes > sequence_tokens))
    if wrong.size:
        number = int(wrong[0])
        raise UserError(
            f"document {number} has {sizes[number]} tokens, a sequence {sequence_tokens}",
            "Drop what does not fit before packing: documents are never cut.",
        )
