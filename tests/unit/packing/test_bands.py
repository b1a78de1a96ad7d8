"""Bins of several lengths: full, every document once, and short bins keep their share."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.curriculum import Bucket, Stage
from pipeline.base.errors import UserError
from pipeline.packing.bands import kept_shares, pack_bands
from pipeline.packing.best_fit import Int32s, Packing, best_fit_decreasing, fill

BANDS = [8, 16, 32]
LENGTHS = st.lists(st.integers(1, 32), min_size=1, max_size=80)
KEPT = st.lists(st.sampled_from([0.0, 0.25, 0.4, 0.5]), min_size=3, max_size=3)
LONG_BANDS = [2048, 4096, 8192, 16384]


def pack(lengths: list[int], kept: list[float], bands: list[int] = BANDS) -> list[Packing]:
    return pack_bands(np.array(lengths, dtype=np.int32), bands, np.array(kept))


def real_mix(rows: int, seed: int = 0) -> Int32s:
    """Mostly short replies, and a few long ones, as traces of several sources have them."""
    generator = np.random.default_rng(seed)
    short = generator.lognormal(np.log(350), 0.9, rows - rows // 8)
    long = generator.lognormal(np.log(3500), 0.7, rows // 8)
    return np.clip(np.concatenate([short, long]), 20, 16384).astype(np.int32)


def filled(lengths: Int32s, packings: list[Packing], bands: list[int]) -> float:
    room = sum(len(one.counts) * band for one, band in zip(packings, bands, strict=True))
    return fill(int(lengths.sum()), room, 1)


@given(LENGTHS, KEPT)
def test_every_document_is_in_exactly_one_bin(lengths: list[int], kept: list[float]) -> None:
    found = [n for one in pack(lengths, kept) for inside in one.bins() for n in inside]
    assert sorted(found) == list(range(len(lengths)))


@given(LENGTHS, KEPT)
def test_no_bin_is_empty_or_above_its_band(lengths: list[int], kept: list[float]) -> None:
    for band, one in zip(BANDS, pack(lengths, kept), strict=True):
        for inside in one.bins():
            assert 0 < sum(lengths[n] for n in inside) <= band


@given(LENGTHS, KEPT)
def test_of_every_length_the_share_stays_in_short_bins(
    lengths: list[int], kept: list[float]
) -> None:
    packings = pack(lengths, kept)
    for level, band in enumerate(BANDS):
        short = [lengths[n] for one in packings[: level + 1] for n in one.documents.tolist()]
        for size in {one for one in lengths if one <= band}:
            assert short.count(size) >= kept[level] * lengths.count(size)


@given(LENGTHS)
def test_short_documents_open_no_long_bin(lengths: list[int]) -> None:
    packings = pack(lengths, [0.0, 0.0, 0.0])
    for lower, band, one in zip([0, *BANDS], BANDS, packings):
        for inside in one.bins():
            assert max(lengths[n] for n in inside) > lower
        own = np.array([n for n in lengths if lower < n <= band], dtype=np.int32)
        assert len(one.counts) <= len(best_fit_decreasing(own, band).counts)


@given(LENGTHS)
def test_what_stays_short_fits_into_no_long_bin(lengths: list[int]) -> None:
    packings = pack(lengths, [0.0, 0.0, 0.0])
    for level in range(1, len(BANDS)):
        stayed = [lengths[n] for one in packings[:level] for n in one.documents.tolist()]
        rooms = [BANDS[level] - sum(lengths[n] for n in one) for one in packings[level].bins()]
        assert not stayed or not rooms or max(rooms) < min(stayed)


def test_a_mix_as_it_is_fills_all_bands() -> None:
    lengths = real_mix(200_000)
    apart = [best_fit_decreasing(lengths[lengths <= LONG_BANDS[0]], LONG_BANDS[0])]
    for lower, band in pairwise(LONG_BANDS):
        inside = lengths[(lengths > lower) & (lengths <= band)]
        apart.append(best_fit_decreasing(inside, band))
    assert filled(lengths, apart, LONG_BANDS) < 0.9
    together = pack_bands(lengths, LONG_BANDS, np.array([0.25, 0.25, 0.4, 0.5]))
    assert filled(lengths, together, LONG_BANDS) >= 0.999
    stored = np.concatenate([one.documents for one in together])
    assert np.array_equal(np.sort(stored), np.arange(len(lengths)))


def test_equal_input_gives_equal_output() -> None:
    lengths, kept = real_mix(20_000), np.array([0.25, 0.25, 0.4, 0.5])
    first, again = (pack_bands(lengths.copy(), LONG_BANDS, kept) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one.documents, other.documents)
        assert np.array_equal(one.counts, other.counts)
        assert (one.documents.dtype, one.counts.dtype) == (np.int32, np.int32)


def test_what_moves_does_not_follow_the_order_of_rows() -> None:
    # Two sources of equal documents, one behind the other: both must reach the long bins.
    lengths = [24] * 100 + [4] * 600
    long = pack(lengths, [0.5, 0.5, 0.5])[2]
    moved = [n - 100 for n in long.documents.tolist() if n >= 100]
    assert len(moved) == 200
    assert 90 <= sum(n < 300 for n in moved) <= 110


def test_takes_no_object_for_a_document() -> None:
    lengths = real_mix(100_000)
    kept = np.array([0.25, 0.25, 0.4, 0.5])
    pack_bands(lengths[:10], LONG_BANDS, kept)
    tracemalloc.start()
    try:
        pack_bands(lengths, LONG_BANDS, kept)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak + lengths.nbytes < 60 * len(lengths)


HELD = [
    Bucket("easy", 2048, 0, 0, 1, 800),
    Bucket("easy", 4096, 0, 0, 1, 200),
    Bucket("hard", 2048, 0, 0, 1, 300),
    Bucket("hard", 4096, 0, 0, 1, 700),
]


def kept(stages: list[Stage], tier: str) -> list[float]:
    return kept_shares(stages, HELD, [2048, 4096], tier).tolist()


def test_stages_of_half_the_tokens_keep_half_of_what_they_need() -> None:
    stages = [Stage(2048, 0.5, {"easy": 1.0}), Stage(4096, 0.5, {"easy": 1.0})]
    # Half of the tier is trained short; 0.8 of it is short: 0.5 / 0.8 / 2 stays.
    assert kept(stages, "easy") == [0.3125, 0.5]
    # No stage takes the other tier, so nothing of it must stay.
    assert kept(stages, "hard") == [0.0, 0.0]


def test_no_more_than_half_and_no_less_than_a_quarter_must_stay() -> None:
    much = [Stage(2048, 0.9), Stage(4096, 0.1)]
    little = [Stage(2048, 0.01), Stage(4096, 0.99)]
    assert kept(much, "hard") == [0.5, 0.5]
    assert kept(little, "easy") == [0.25, 0.5]


def test_nothing_must_stay_below_the_shortest_stage() -> None:
    assert kept([Stage(4096, 1.0)], "easy") == [0.0, 0.5]


def test_a_stage_without_documents_is_refused() -> None:
    with pytest.raises(UserError, match="fits into the 1024 tokens of a stage"):
        kept([Stage(1024, 1.0)], "easy")
