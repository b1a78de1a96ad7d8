"""Documents into buckets of one tier and one length band, and into bins within each.

Pure functions over arrays; called by pipeline/tokenize.py. A bucket holds bins of one
length with documents of one tier, none of them longer than its band; bands.py decides
which documents fill whose bins. A run of one stage has a single bucket, whose band is the
sequence, packed by best_fit.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pipeline.base.curriculum import Bucket, Stage
from pipeline.packing.bands import kept_shares, pack_bands
from pipeline.packing.best_fit import Int32s, Packing, best_fit_decreasing, fill
from pipeline.packing.encoded import Encoded

TIERS = ("easy", "medium", "hard", "unknown")
ALL = "all"
"""The tier of a bucket that takes documents of every tier."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where every document is stored."""

    documents: Int32s
    """Numbers of the documents in the order of storage, int32 [D]."""
    counts: Int32s
    """Documents of each bin, int32 [S]."""
    buckets: list[Bucket]
    trained: list[int]
    """Tokens of each bucket that carry loss."""

    def fill(self) -> float:
        """Share of the room of all bins that documents take."""
        tokens = sum(one.tokens for one in self.buckets)
        return fill(tokens, sum(one.bins * one.band for one in self.buckets), 1)

    def described(self) -> list[dict[str, Any]]:
        """The buckets, as they stand in the manifest."""
        return [
            {**asdict(one), "trained_tokens": trained}
            for one, trained in zip(self.buckets, self.trained, strict=True)
        ]


def lay_out(encoded: Encoded, bands: Sequence[int], stages: Sequence[Stage] = ()) -> Layout:
    """Put all documents into buckets and bins.

    Args:
        bands: most tokens of a bin of each band, ascending; the last holds every document.
        stages: of the curriculum; with any, every tier has buckets of its own. Without,
            there is one band.

    Returns:
        Buckets that hold something, by tier, then by band.

    Raises:
        UserError: a stage for which no document is short enough.
    """
    documents, counts, buckets, trained = [], [], [], []
    first = 0
    packings = _tiers(encoded, bands, stages) if stages else _whole(encoded, bands)
    for tier, band, packing in packings:
        members = packing.documents
        documents.append(members)
        counts.append(packing.counts)
        tokens = int(encoded.lengths[members].sum(dtype=np.int64))
        buckets.append(Bucket(tier, band, first, len(packing.counts), len(members), tokens))
        trained.append(int(encoded.trained[members].sum(dtype=np.int64)))
        first += len(packing.counts)
    return Layout(np.concatenate(documents), np.concatenate(counts), buckets, trained)


def _whole(encoded: Encoded, bands: Sequence[int]) -> Iterator[tuple[str, int, Packing]]:
    (band,) = bands
    yield ALL, band, best_fit_decreasing(encoded.lengths, band)


def _tiers(
    encoded: Encoded, bands: Sequence[int], stages: Sequence[Stage]
) -> Iterator[tuple[str, int, Packing]]:
    """Tier, band and packing of every bucket; documents are numbered as in `encoded`."""
    tiers = sorted({tier for _, tier in encoded.names}, key=_rank)
    place = {tier: number for number, tier in enumerate(tiers)}
    of_kind = np.array([place[tier] for _, tier in encoded.names], dtype=np.int32)
    homes = of_kind[encoded.kinds]
    held = _by_length(encoded.lengths, homes, tiers, bands)
    for number, tier in enumerate(tiers):
        members = np.flatnonzero(homes == number).astype(np.int32)
        kept = kept_shares(stages, held, bands, tier)
        packings = pack_bands(encoded.lengths[members], bands, kept)
        for band, packing in zip(bands, packings, strict=True):
            if len(packing.counts):
                yield tier, band, Packing(members[packing.documents], packing.counts)


def _by_length(
    lengths: Int32s, homes: Int32s, tiers: Sequence[str], bands: Sequence[int]
) -> list[Bucket]:
    """Documents of every tier in the smallest band that holds them, before they have bins."""
    cells = homes * np.int32(len(bands)) + np.searchsorted(bands, lengths).astype(np.int32)
    size = len(tiers) * len(bands)
    documents = np.bincount(cells, minlength=size).tolist()
    tokens = np.zeros(size, dtype=np.int64)
    np.add.at(tokens, cells, lengths)
    return [
        Bucket(tiers[cell // len(bands)], bands[cell % len(bands)], 0, 0, documents[cell], held)
        for cell, held in enumerate(tokens.tolist())
    ]


def _rank(tier: str) -> tuple[int, str]:
    return (TIERS.index(tier) if tier in TIERS else len(TIERS)), tier
