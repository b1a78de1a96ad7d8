"""Packed sequences as batches; reads work/tokenize. No torch.

Which bins a step trains is a pure function of seed, step and the borders of the
stages (pipeline/base/curriculum.py): resuming at any step, or with another number
of ranks, continues the same global stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.base.artifacts import read_json
from pipeline.base.curriculum import Bucket, Slot
from pipeline.base.errors import UserError

Ints = npt.NDArray[np.int64]
ALIGNMENT = 128
"""Tokens of an attention kernel's tile."""


@dataclass(frozen=True)
class Batch:
    """Whole documents laid end to end; nothing is padded.

    Attributes:
        tokens: int64 [T].
        positions: int64 [T], counting from 0 in every document.
        targets: int64 [M], places whose token must be predicted (from place - 1).
        lengths: tokens of each document, summing to T.
    """

    tokens: Ints
    positions: Ints
    targets: Ints
    lengths: tuple[int, ...]


def buckets_of(manifest: dict[str, Any], folder: Path) -> list[Bucket]:
    """The buckets that the packed bins lie in, from the manifest.

    Raises:
        UserError: the manifest has none, or not those of this version.
    """
    rows = manifest.get("buckets")
    names = {one.name for one in fields(Bucket)}
    if not rows or not all(names <= row.keys() for row in rows):
        raise UserError(
            f"{folder / 'manifest.json'}: no buckets, so another version packed these data",
            "Run tokenize again: `dvc repro -f tokenize`.",
        )
    return [Bucket(**{name: row[name] for name in names}) for row in rows]


class PackedData:
    """Memory-mapped view of the tokenize stage's arrays."""

    def __init__(self, folder: Path) -> None:
        self.manifest: dict[str, Any] = read_json(folder / "manifest.json")
        self.buckets = buckets_of(self.manifest, folder)
        self.tokens = _load(folder / "tokens.npy")
        self.trained = _load(folder / "trained.npy")
        self.lengths: Ints = _load(folder / "document_lengths.npy").astype(np.int64)
        per_sequence = _load(folder / "sequence_documents.npy").astype(np.int64)
        self.first_document: Ints = np.concatenate(([0], np.cumsum(per_sequence)))
        self.first_token: Ints = np.concatenate(([0], np.cumsum(self.lengths)))
        if self.first_document[-1] != len(self.lengths) or self.first_token[-1] != len(self.tokens):
            raise UserError(
                f"{folder}: document lengths do not add up to the stored tokens",
                "Run `dvc repro -f tokenize`.",
            )
        self.sizes: Ints = np.diff(self.first_token[self.first_document])
        """Tokens of every packed sequence, int64 [S]."""
        ends = np.cumsum([0, *(one.bins for one in self.buckets)]).tolist()
        if [*(one.first for one in self.buckets), len(self)] != ends:
            raise UserError(
                f"{folder}: the buckets of manifest.json do not add up to the stored bins",
                "Run `dvc repro -f tokenize`.",
            )

    def __len__(self) -> int:
        return len(self.first_document) - 1

    def span(self, sequence: int) -> tuple[int, int]:
        """First and one-past-last token of a packed sequence."""
        first, last = self.first_document[sequence], self.first_document[sequence + 1]
        return int(self.first_token[first]), int(self.first_token[last])

    def trained_tokens(self, sequences: Ints) -> int:
        """Tokens that carry loss in these sequences."""
        return sum(int(self.trained[slice(*self.span(int(s)))].sum()) for s in sequences)

    def tokens_in(self, sequences: Ints) -> int:
        """All tokens of these sequences."""
        return int(self.sizes[sequences].sum())

    def squared_lengths(self, sequences: Ints) -> int:
        """Sum of L² over the documents of these sequences."""
        bounds = self.first_document
        return sum(int((self.lengths[bounds[s] : bounds[s + 1]] ** 2).sum()) for s in sequences)

    def batch(self, sequences: Ints) -> Batch:
        """These sequences, laid end to end."""
        spans = [self.span(int(s)) for s in sequences]
        documents = [
            self.lengths[self.first_document[s] : self.first_document[s + 1]] for s in sequences
        ]
        lengths = np.concatenate(documents)
        tokens = np.concatenate([self.tokens[a:b] for a, b in spans]).astype(np.int64)
        trained = np.concatenate([self.trained[a:b] for a, b in spans])
        positions = np.concatenate([np.arange(n, dtype=np.int64) for n in lengths])
        # The first token of a document has no predecessor of its own: it is never a target.
        targets = np.flatnonzero(trained & (positions > 0)).astype(np.int64)
        return Batch(tokens, positions, targets, tuple(int(n) for n in lengths))


def padded(batch: Batch, tokens: int) -> Batch:
    """The batch filled up to `tokens` with tokens without targets, if it is shorter.

    Compiled code fits one shape; well filled sequences lose next to nothing by it. A few
    tokens lengthen the last document, which by causality they cannot change, so that a
    lone document keeps a length that fast kernels take; more are a document of their own.
    """
    missing = tokens - len(batch.tokens)
    if missing <= 0:
        return batch
    first, lengths = 0, (*batch.lengths, missing)
    if missing < ALIGNMENT:
        first, lengths = batch.lengths[-1], (*batch.lengths[:-1], batch.lengths[-1] + missing)
    return Batch(
        np.concatenate([batch.tokens, np.zeros(missing, np.int64)]),
        np.concatenate([batch.positions, np.arange(first, first + missing, dtype=np.int64)]),
        batch.targets,
        lengths,
    )


def _load(path: Path) -> npt.NDArray[Any]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: cannot be read ({error})", "Run `dvc repro -f tokenize`."
        ) from None


def micro_batches(slots: Sequence[Slot], *, rank: int, ranks: int, micro_batch: int) -> list[Ints]:
    """This rank's share of a step's slots, in groups of `micro_batch`, as numbers of bins."""
    mine = [slot.bins for slot in slots[rank::ranks]]
    return [np.concatenate(mine[i : i + micro_batch]) for i in range(0, len(mine), micro_batch)]
