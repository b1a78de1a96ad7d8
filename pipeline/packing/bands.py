"""Bins of several lengths for the documents of one tier: long ones first, filled with short ones.

Pure functions over arrays; buckets.py calls them. A document longer than half a band
leaves room in its bin that no other of its band can fill, so the bins of the longest
band are opened first, for the documents that fit into no shorter bin, and take shorter
documents, longest first, each where it leaves the least room. What is left over does the
same in the next band. The lowest band takes the rest.

Stages of short sequences can train only what lies in short bins. So of the documents of
every length a share stays there (`kept_shares`), and which of those of equal length move
does not follow the order of the rows, which is that of the sources.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.base.curriculum import Bucket, Stage, bucket_weights
from pipeline.packing.best_fit import Int32s, Packing, Rooms, stable_order

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]

KEPT_AT_LEAST, KEPT_AT_MOST = 0.25, 0.5
"""Bounds of the share of documents that must stay in short bins."""
_GOLDEN = 2_654_435_769  # floor(2**32 / φ), odd


def kept_shares(
    stages: Sequence[Stage], buckets: Sequence[Bucket], bands: Sequence[int], tier: str
) -> Floats:
    """Share of a tier's documents that must stay in bins of at most each band.

    With `wanted` the share of the tier's trained tokens that stages up to a band take, and
    `held` the share of its tokens in documents up to that band, half of wanted / held
    stays, but at least a quarter and at most a half: so no stage goes over its documents
    more than twice as often as the tier is gone over, or as it would have to if all of
    them stayed. Nothing needs to stay where no stage is that short.

    Args:
        stages: of the curriculum.
        buckets: documents of all tiers, each counted in the smallest band that holds it.
        bands: ascending.

    Returns:
        One share a band, float64 [bands].

    Raises:
        UserError: a stage for which no document is short enough.
    """
    of_tier = [one.tier == tier for one in buckets]
    takes = [stage.share * float(bucket_weights(stage, buckets)[of_tier].sum()) for stage in stages]
    tokens = [one.tokens for one in buckets if one.tier == tier]
    up_to = [one.band for one in buckets if one.tier == tier]
    shares = []
    for band in bands:
        wanted = sum(t for t, stage in zip(takes, stages) if stage.sequence_tokens <= band)
        held = sum(n for n, upper in zip(tokens, up_to) if upper <= band) / max(1, sum(tokens))
        ratio = wanted / sum(takes) / held if wanted and held else 0.0
        kept = min(max(ratio / 2, KEPT_AT_LEAST), KEPT_AT_MOST)
        shares.append(kept if wanted else 0.0)
    return np.array(shares, dtype=np.float64)


def pack_bands(lengths: Int32s, bands: Sequence[int], kept: Floats) -> list[Packing]:
    """Put the documents of one tier into bins of several lengths.

    Args:
        lengths: tokens of every document, from 1 to the last band, int32 [D].
        bands: most tokens of the bins, ascending.
        kept: share of the documents of every length that must stay in bins of at most
            each band, float64 [bands].

    Returns:
        One packing a band, ascending; every document is in exactly one bin of one of them.
        Equal input gives equal output.
    """
    shelf = _Shelf(lengths, bands, kept)
    found = [_pack_band(shelf, level) for level in reversed(range(len(bands)))]
    return found[::-1]


class _Shelf:
    """Documents that have no bin yet, by their length.

    Attributes:
        sizes: every length that occurs, descending.
    """

    def __init__(self, lengths: Int32s, bands: Sequence[int], kept: Floats) -> None:
        self.bands, self._kept = list(bands), kept
        counts = np.bincount(lengths)
        self.sizes: list[int] = np.flatnonzero(counts)[::-1].tolist()
        self._whole: Int64s = counts[self.sizes].astype(np.int64)
        self._left = self._whole.copy()
        self._stops: Int64s = np.cumsum(self._whole)
        self._homes = np.searchsorted(self.bands, self.sizes)
        numbers = np.arange(len(lengths), dtype=np.uint32)
        order = np.argsort(numbers * np.uint32(_GOLDEN), kind="stable").astype(np.int32)
        self._order = order[stable_order(np.int32(self.bands[-1]) - lengths[order])]

    def free(self, level: int) -> Int64s:
        """Documents of every size that a band may take, int64 [sizes]; 0 if they do not fit."""
        must_stay = np.zeros(len(self.sizes))
        for below in range(level):
            here = np.where(self._homes <= below, self._kept[below], 0.0)
            must_stay = np.maximum(must_stay, here)
        free = np.maximum(self._left - np.ceil(self._whole * must_stay).astype(np.int64), 0)
        return np.where(self._homes <= level, free, 0)

    def is_own(self, place: int, level: int) -> bool:
        """Whether documents of a size fit into no shorter bin than those of this band."""
        return bool(self._homes[place] == level)

    def take(self, place: int, count: int) -> Int32s:
        """Numbers of so many documents of a size, which are now gone."""
        start = int(self._stops[place] - self._left[place])
        self._left[place] -= count
        return self._order[start : start + count]


def _pack_band(shelf: _Shelf, level: int) -> Packing:
    rooms = Rooms(shelf.bands[level])
    free = shelf.free(level)
    chosen, homes = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.int32)]
    for place in np.flatnonzero(free).tolist():
        found = np.empty(int(free[place]), dtype=np.int32)
        put = rooms.put(shelf.sizes[place], found, opens=shelf.is_own(place, level))
        chosen.append(shelf.take(place, put))
        homes.append(found[:put])
    home = np.concatenate(homes)
    stored = stable_order(home)
    counts = np.bincount(home, minlength=rooms.opened).astype(np.int32)
    return Packing(np.concatenate(chosen)[stored], counts)
