"""Every step's bins follow from seed and step; shares, passes and resumption are exact."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.curriculum import (
    Bucket,
    Curriculum,
    Stage,
    bin_order,
    bucket_weights,
    slot_buckets,
    stage_starts,
)
from pipeline.base.errors import UserError

BUCKETS = [
    Bucket("easy", 64, 0, 7, 20, 400),
    Bucket("easy", 128, 7, 3, 4, 380),
    Bucket("hard", 64, 10, 5, 9, 300),
    Bucket("hard", 128, 15, 4, 4, 500),
]
STAGES = [Stage(64, 0.5, {"easy": 0.75, "hard": 0.25}), Stage(128, 0.5, {"easy": 0.2, "hard": 0.8})]
STARTS = [0, 10]


def make(stages: list[Stage] = STAGES, seed: int = 3) -> Curriculum:
    return Curriculum(stages, BUCKETS, 512, seed)


def stream(curriculum: Curriculum, steps: int, starts: list[int] = STARTS) -> list[list[int]]:
    return [
        [int(one) for slot in curriculum.slots(step, starts) for one in slot.bins]
        for step in range(steps)
    ]


def test_weights_follow_tiers_and_within_a_tier_the_tokens() -> None:
    assert bucket_weights(STAGES[0], BUCKETS) == pytest.approx([0.75, 0, 0.25, 0])
    assert bucket_weights(STAGES[1], BUCKETS) == pytest.approx(
        [0.2 * 400 / 780, 0.2 * 380 / 780, 0.8 * 300 / 800, 0.8 * 500 / 800]
    )
    assert bucket_weights(Stage(128, 1), BUCKETS) == pytest.approx(
        np.array([400, 380, 300, 500]) / 1580
    )


def test_a_tier_without_data_gives_its_share_away_and_none_at_all_is_refused() -> None:
    stage = Stage(64, 1, {"easy": 0.3, "medium": 0.4, "hard": 0.3})
    assert bucket_weights(stage, BUCKETS) == pytest.approx([0.5, 0, 0.5, 0])
    with pytest.raises(UserError, match="of tier medium fits into the 64 tokens"):
        bucket_weights(Stage(64, 1, {"medium": 1.0}), BUCKETS)
    with pytest.raises(UserError, match="no document fits into the 32 tokens"):
        bucket_weights(Stage(32, 1), BUCKETS)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any), st.integers(0, 10**9))
def test_any_stretch_of_slots_has_its_shares(parts: list[int], first: int) -> None:
    weights = np.array(parts, dtype=np.float64) / sum(parts)
    counts = np.bincount(slot_buckets(weights, first, 1000), minlength=len(parts))
    assert np.abs(counts - 1000 * weights).max() <= 8  # a random draw strays by 16 and more
    assert counts[weights == 0].sum() == 0


def test_all_steps_hold_the_same_room_and_bins_of_the_stage() -> None:
    curriculum = make()
    for step in range(20):
        slots = curriculum.slots(step, STARTS)
        length = 64 if step < 10 else 128
        assert len(slots) == 512 // length
        for slot in slots:
            bucket = BUCKETS[slot.bucket]
            assert len(slot.bins) == length // bucket.band
            assert all(bucket.first <= one < bucket.first + bucket.bins for one in slot.bins)


def test_a_bucket_is_exhausted_before_any_bin_comes_again() -> None:
    seen: Counter[int] = Counter()
    for bins in stream(make(), 20):
        for one in bins:
            seen[one] += 1
            mine = next(b for b in BUCKETS if b.first <= one < b.first + b.bins)
            counts = [seen[n] for n in range(mine.first, mine.first + mine.bins)]
            assert max(counts) - min(counts) <= 1


def test_passes_are_what_was_handed_out() -> None:
    curriculum = make()
    handed = Counter(one for bins in stream(curriculum, 20) for one in bins)
    for number, bucket in enumerate(BUCKETS):
        total = sum(handed[n] for n in range(bucket.first, bucket.first + bucket.bins))
        assert curriculum.taken(20, STARTS)[number] == total
        assert curriculum.passes(20, STARTS)[number] == pytest.approx(total / bucket.bins)


@given(st.integers(0, 19), st.integers(0, 2**31))
def test_a_fresh_start_at_any_step_continues_the_same_stream(step: int, seed: int) -> None:
    whole = stream(make(seed=seed), 20)
    fresh = make(seed=seed)
    assert [one for slot in fresh.slots(step, STARTS) for one in slot.bins] == whole[step]
    back = make(seed=seed)
    back.slots(19, STARTS)
    assert [one for slot in back.slots(step, STARTS) for one in slot.bins] == whole[step]


def test_a_later_border_leaves_the_past_alone() -> None:
    curriculum = make()
    before = stream(curriculum, 8)
    assert stream(curriculum, 8, [0, 16]) == before
    assert stream(curriculum, 12, [0, 16])[10:] != stream(curriculum, 12)[10:]


def test_another_seed_or_pass_is_another_order() -> None:
    orders = {tuple(bin_order(seed, 1, turn, 40)) for seed in (0, 1) for turn in (0, 1)}
    assert len(orders) == 4
    assert tuple(bin_order(0, 2, 0, 40)) not in orders


def test_borders_are_whole_steps() -> None:
    assert stage_starts([1], 7) == [0]
    assert stage_starts([0.5, 0.25, 0.25], 10) == [0, 5, 8]
    # 10 B tokens at 262,144 a step, a third stage of 7/30 each, the rest in the fourth.
    starts = stage_starts([8901, 8901, 8901, 11444], 38_147)
    assert np.diff([*starts, 38_147]).tolist() == [8901, 8901, 8901, 11444]


def test_a_border_is_the_first_step_that_reaches_the_share() -> None:
    assert stage_starts([1, 2], 10) == [0, 4]  # 3.33 steps
    assert stage_starts([1, 1, 98], 3) == [0, 1, 1]
    # A run that slows down: half of it lies behind step 3 of 10.
    assert stage_starts([1, 1], 10, lambda step: min(1.0, step / 6)) == [0, 3]
