"""Order and content of batches: every document once a pass, on any number of ranks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.curriculum import Bucket, Curriculum, Slot, Stage
from pipeline.base.errors import UserError
from pipeline.base.stage_table import micro_batch_sequences
from pipeline.learning.data import PackedData, micro_batches
from pipeline.learning.schedule import Replan, stage_starts
from tests.support.packed import TWO_STAGES, TWO_TIERS, write_packed

SHARES = [1.0, 1.0]
STAGES = [Stage(32, 0.5, {"easy": 0.7, "hard": 0.3}), Stage(64, 0.5, {"easy": 0.2, "hard": 0.8})]
STEP_TOKENS = 256


@pytest.fixture
def data(tmp_path: Path) -> PackedData:
    return PackedData(write_packed(tmp_path / "data", sequences=7))


def plain(bins: int, per_step: int, seed: int) -> Curriculum:
    bucket = Bucket("all", 64, 0, bins, bins, 60 * bins)
    return Curriculum([Stage(64, 1.0)], [bucket], 64 * per_step, seed)


def bins_of(slots: Sequence[Slot]) -> list[int]:
    return [int(one) for slot in slots for one in slot.bins]


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 5))
def test_every_sequence_occurs_once_a_pass(sequences: int, per_step: int, seed: int) -> None:
    steps, curriculum = -(-3 * sequences // per_step), plain(sequences, per_step, seed)
    stream = [one for step in range(steps) for one in bins_of(curriculum.slots(step, [0]))]
    for start in range(0, 3 * sequences, sequences):
        one_pass = stream[start : start + sequences]
        assert sorted(one_pass) == list(range(sequences))


def test_without_a_curriculum_the_stream_is_one_permutation_after_the_other() -> None:
    generators = [np.random.Generator(np.random.Philox(key=[3, turn])) for turn in range(3)]
    expected = np.concatenate([one.permutation(10) for one in generators])
    curriculum = plain(10, 4, seed=3)
    stream = [one for step in range(7) for one in bins_of(curriculum.slots(step, [0]))]
    assert stream == expected[:28].tolist()


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_ranks_share_a_step_without_loss(ranks: int, micro: int, rounds: int) -> None:
    slots = [Slot(0, np.array([n, 100 + n])) for n in range(ranks * micro * rounds)]
    shares = [micro_batches(slots, rank=r, ranks=ranks, micro_batch=micro) for r in range(ranks)]
    assert all(len(share) == rounds for share in shares)
    trained = Counter(int(i) for share in shares for group in share for i in group)
    assert trained == Counter(bins_of(slots))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 2**31))
def test_any_number_of_ranks_at_any_step_continues_the_same_slots(
    attempts: list[int], seed: int
) -> None:
    """Attempts of some steps each, on 1, 2 or 4 ranks, one after the other."""
    firsts = (0, 6, 9, 13)
    buckets = [
        Bucket(tier, band, first, bins, bins, 30 * bins)
        for (tier, band, bins), first in zip(TWO_TIERS, firsts, strict=True)
    ]
    starts = stage_starts([Replan(0, 24, "plan")], SHARES)
    whole = Curriculum(STAGES, buckets, STEP_TOKENS, seed)
    begun = 0
    for number, steps in enumerate(attempts):
        ranks, fresh = (1, 2, 4)[number % 3], Curriculum(STAGES, buckets, STEP_TOKENS, seed)
        for step in range(begun, begun + steps):
            slots, expected = fresh.slots(step, starts), bins_of(whole.slots(step, starts))
            micro = micro_batch_sequences(64 if step >= 12 else 32, 64)
            shares = [
                micro_batches(slots, rank=rank, ranks=ranks, micro_batch=micro)
                for rank in range(ranks)
            ]
            assert sum(buckets[slot.bucket].band * len(slot.bins) for slot in slots) == STEP_TOKENS
            assert [len(share) for share in shares] == [STEP_TOKENS // 64 // ranks] * ranks
            assert bins_of(slots) == expected
            trained = [int(i) for share in shares for group in share for i in group]
            assert sorted(trained) == sorted(expected)
        begun += steps


def test_first_token_of_a_document_is_never_a_target(data: PackedData) -> None:
    batch = data.batch(np.arange(len(data), dtype=np.int64))
    starts = np.cumsum((0, *batch.lengths[:-1]))
    assert not set(starts.tolist()) & set(batch.targets.tolist())
    assert (batch.positions[starts] == 0).all()
    assert batch.targets.size == data.trained_tokens(np.arange(len(data), dtype=np.int64))


def test_all_arrays_of_a_batch_have_one_length(data: PackedData) -> None:
    for sequence in range(len(data)):
        batch = data.batch(np.array([sequence], dtype=np.int64))
        assert batch.tokens.shape == batch.positions.shape == (sum(batch.lengths),)
        assert batch.positions.max() == max(batch.lengths) - 1


def test_a_batch_is_its_sequences_laid_end_to_end(data: PackedData) -> None:
    both = data.batch(np.array([4, 1], dtype=np.int64))
    single = [data.batch(np.array([s], dtype=np.int64)) for s in (4, 1)]
    assert both.tokens.tolist() == [t for batch in single for t in batch.tokens]
    assert both.lengths == single[0].lengths + single[1].lengths
    assert data.tokens_in(np.array([4, 1])) == both.tokens.size


def test_lengths_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    folder = write_packed(tmp_path / "data")
    lengths = np.load(folder / "document_lengths.npy")
    np.save(folder / "document_lengths.npy", lengths[:-1])
    with pytest.raises(UserError, match="do not add up"):
        PackedData(folder)


def test_buckets_are_the_manifests(tmp_path: Path) -> None:
    data = PackedData(write_packed(tmp_path / "data", buckets=TWO_TIERS))
    assert [(one.tier, one.band, one.bins) for one in data.buckets] == TWO_TIERS
    assert [one.first for one in data.buckets] == [0, 6, 9, 13]
    for bucket in data.buckets:
        bins = np.arange(bucket.first, bucket.first + bucket.bins)
        assert data.tokens_in(bins) == bucket.tokens
        assert data.sizes[bins].max() <= bucket.band
    assert [one["sequence_tokens"] for one in TWO_STAGES] == [32, 64]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"buckets": None}, "no buckets"),
        ({"buckets": []}, "no buckets"),
        ({"buckets": [{"tier": "all", "band": 64, "first": 0}]}, "no buckets"),
    ],
)
def test_data_of_another_version_are_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    folder = write_packed(tmp_path / "data")
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, **change}))
    with pytest.raises(UserError, match=message) as caught:
        PackedData(folder)
    assert "Run tokenize again" in caught.value.remedy


@pytest.mark.parametrize("key", ["first", "bins"])
def test_buckets_that_do_not_add_up_are_refused(tmp_path: Path, key: str) -> None:
    folder = write_packed(tmp_path / "data", buckets=TWO_TIERS)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["buckets"][2][key] += 1
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"buckets of manifest\.json do not add up"):
        PackedData(folder)
