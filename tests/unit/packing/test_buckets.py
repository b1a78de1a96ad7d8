"""Buckets: one tier, one length band, bins of that band, every document once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.base.curriculum import Curriculum, Stage
from pipeline.packing.best_fit import best_fit_decreasing
from pipeline.packing.buckets import ALL, Layout, lay_out
from pipeline.packing.encoded import Encoded
from tests.support.packing import encode_traces, sum_trace

BANDS = [80, 160, 480]
STAGES = [Stage(80, 0.3, {"easy": 0.7, "hard": 0.3}), Stage(480, 0.7)]
ROWS = [sum_trace(n, "Carry the one. " * (n % 9)) for n in range(1, 61)]


@pytest.fixture(scope="module")
def encoded(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Encoded:
    return encode_traces(base, tmp_path_factory.mktemp("parts"), ROWS, 31, 29, sequence_tokens=480)


@pytest.fixture(scope="module")
def layout(encoded: Encoded) -> Layout:
    return lay_out(encoded, BANDS, STAGES)


def test_every_document_is_stored_once(layout: Layout, encoded: Encoded) -> None:
    assert sorted(layout.documents.tolist()) == list(range(len(encoded)))
    assert layout.counts.sum() == len(encoded)


def test_a_document_lies_in_its_tier_and_no_shorter_band(layout: Layout, encoded: Encoded) -> None:
    firsts = np.concatenate(([0], np.cumsum(layout.counts)))
    for bucket in layout.buckets:
        span = slice(firsts[bucket.first], firsts[bucket.first + bucket.bins])
        for number in layout.documents[span].tolist():
            assert bucket.tier == ROWS[number].tier
            assert bucket.band >= encoded.lengths[number]


def test_long_bins_take_short_documents_and_short_bins_keep_some(
    layout: Layout, encoded: Encoded
) -> None:
    firsts = np.concatenate(([0], np.cumsum(layout.counts)))
    moved = 0
    for bucket in layout.buckets:
        span = slice(firsts[bucket.first], firsts[bucket.first + bucket.bins])
        inside = encoded.lengths[layout.documents[span]]
        lower = max([0, *(band for band in BANDS if band < bucket.band)])
        moved += int((inside <= lower).sum())
        if bucket.band == 80:
            of_tier = [n for n, row in enumerate(ROWS) if row.tier == bucket.tier]
            assert len(inside) >= (encoded.lengths[of_tier] <= 80).sum() / 4
    assert moved >= 10


def test_every_bin_is_handed_out_before_any_again(layout: Layout) -> None:
    curriculum = Curriculum(STAGES, layout.buckets, 960, seed=0)
    handed = np.zeros(len(layout.counts), dtype=np.int64)
    for step in range(60):
        for slot in curriculum.slots(step, [0, 12]):
            assert sum(layout.buckets[slot.bucket].band for _ in slot.bins) <= 480
            np.add.at(handed, slot.bins, 1)
    for bucket, count in zip(layout.buckets, curriculum.taken(60, [0, 12]).tolist(), strict=True):
        times = handed[bucket.first : bucket.first + bucket.bins]
        assert times.sum() == count
        assert times.max() - times.min() <= 1


def test_no_bin_is_above_its_band(layout: Layout, encoded: Encoded) -> None:
    lengths = encoded.lengths[layout.documents]
    sizes = np.add.reduceat(lengths, np.cumsum(layout.counts) - layout.counts)
    for bucket in layout.buckets:
        assert sizes[bucket.first : bucket.first + bucket.bins].max() <= bucket.band


def test_buckets_lie_end_to_end_and_count_what_they_hold(layout: Layout, encoded: Encoded) -> None:
    order = [(bucket.tier, bucket.band) for bucket in layout.buckets]
    ranks = [(("easy", "medium", "hard", "unknown").index(t), band) for t, band in order]
    assert ranks == sorted(set(ranks))
    assert len({band for _, band in order}) == 3
    ends = np.cumsum([bucket.bins for bucket in layout.buckets])
    assert [bucket.first for bucket in layout.buckets] == [0, *ends[:-1].tolist()]
    assert ends[-1] == len(layout.counts)
    assert sum(bucket.documents for bucket in layout.buckets) == len(encoded)
    assert sum(bucket.tokens for bucket in layout.buckets) == encoded.lengths.sum()
    assert sum(layout.trained) == encoded.trained.sum()
    firsts = np.concatenate(([0], np.cumsum(layout.counts)))
    for bucket, row in zip(layout.buckets, layout.described(), strict=True):
        members = layout.documents[firsts[bucket.first] : firsts[bucket.first + bucket.bins]]
        assert row["tokens"] == encoded.lengths[members].sum()
        assert row["trained_tokens"] == encoded.trained[members].sum()
        assert row["documents"] == len(members)


def test_one_stage_is_one_bucket_packed_as_a_whole(encoded: Encoded) -> None:
    layout = lay_out(encoded, [480])
    whole = best_fit_decreasing(encoded.lengths, 480)
    (bucket,) = layout.buckets
    assert (bucket.tier, bucket.band, bucket.first) == (ALL, 480, 0)
    assert np.array_equal(layout.documents, whole.documents)
    assert np.array_equal(layout.counts, whole.counts)
    assert layout.fill() == encoded.lengths.sum() / (480 * len(whole.counts))


def test_tiers_that_no_list_names_come_last(encoded: Encoded) -> None:
    names, encoded.names = encoded.names, [("sums", f"z{tier}") for _, tier in encoded.names]
    try:
        tiers = [bucket.tier for bucket in lay_out(encoded, [480], [Stage(480, 1.0)]).buckets]
    finally:
        encoded.names = names
    assert tiers == sorted(tiers)
    assert len(tiers) == 4
