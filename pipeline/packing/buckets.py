"""Documents into buckets of one tier and one length band, and into bins within each.

Pure functions over arrays; called by pipeline/tokenize.py. A document lies in the
smallest band that holds it, and is packed with others of its bucket into bins of that
band (best_fit.py). A run of one stage has a single bucket, whose band is the sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pipeline.base.curriculum import Bucket
from pipeline.packing.best_fit import Int32s, best_fit_decreasing, fill
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


def lay_out(encoded: Encoded, bands: Sequence[int], *, by_tier: bool) -> Layout:
    """Put all documents into buckets and bins.

    Args:
        bands: most tokens of a document of each band, ascending; the last holds all.
        by_tier: whether every tier has buckets of its own.

    Returns:
        Buckets that hold something, by tier, then by band.
    """
    tiers = sorted({tier for _, tier in encoded.names}, key=_rank) if by_tier else [ALL]
    place = {tier: number for number, tier in enumerate(tiers)}
    of_kind = [place[tier] if by_tier else 0 for _, tier in encoded.names]
    homes = np.array(of_kind, dtype=np.int32)[encoded.kinds] * np.int32(len(bands))
    homes += np.searchsorted(bands, encoded.lengths).astype(np.int32)
    documents, counts, buckets, trained = [], [], [], []
    first = 0
    for home in np.unique(homes).tolist():
        members = np.flatnonzero(homes == home).astype(np.int32)
        tier, band = tiers[home // len(bands)], bands[home % len(bands)]
        packing = best_fit_decreasing(encoded.lengths[members], band)
        documents.append(members[packing.documents])
        counts.append(packing.counts)
        tokens = int(encoded.lengths[members].sum(dtype=np.int64))
        buckets.append(Bucket(tier, band, first, len(packing.counts), len(members), tokens))
        trained.append(int(encoded.trained[members].sum(dtype=np.int64)))
        first += len(packing.counts)
    return Layout(np.concatenate(documents), np.concatenate(counts), buckets, trained)


def _rank(tier: str) -> tuple[int, str]:
    return (TIERS.index(tier) if tier in TIERS else len(TIERS)), tier
