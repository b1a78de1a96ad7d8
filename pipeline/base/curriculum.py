"""Which packed bins make up an optimizer step: a pure function of seed, step and stages.

Bins lie in buckets, one a (tier, length band). A stage trains sequences of one length S
and says how its tokens are shared among the tiers; within a tier the bands up to S get
what they hold. A step has room for `tokens_per_step // S` sequences, its slots; every
slot is filled from one bucket, with as many bins of band b as S holds. So every stage has
the same tokens a step, on any number of ranks.

Slot u of a stage belongs to the bucket in whose share of [0, 1) the number u·φ mod 1
falls (Weyl's sequence with the golden ratio, in 64-bit integers): after any number of
slots each bucket has its share up to a few slots, without a random draw. A bucket hands
out its bins in a permutation by (seed, bucket, pass), and begins the next pass when
all have been seen. Nothing else is remembered, so a run resumes at any step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pipeline.base.errors import UserError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # floor(2**64 / φ), odd
_CHUNK = 1 << 20
_ROUNDING = 1e-9
"""Of shares and progress, which are sums of floats: far less than one step."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Bins of one tier and one length band, stored one after the other."""

    tier: str
    band: int
    """Tokens that a bin holds at most."""
    first: int
    """Number of its first bin."""
    bins: int
    documents: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of the run with sequences of one length."""

    sequence_tokens: int
    share: float
    """Of the run's steps."""
    tiers: dict[str, float] | None = None
    """Tier → share of the stage's tokens; None takes the tiers as they come."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One sequence of a step."""

    bucket: int
    bins: Ints
    """Numbers of its bins, int64."""


def bucket_weights(stage: Stage, buckets: Sequence[Bucket]) -> Floats:
    """Share of the stage's slots of each bucket, float64 [buckets], summing to 1.

    A tier that the stage wants and that has no bin short enough gives its share to the
    others in proportion.

    Raises:
        UserError: no bin is short enough, or none is of a wanted tier.
    """
    fits = np.array([one.band <= stage.sequence_tokens for one in buckets])
    tokens = np.where(fits, [float(one.tokens) for one in buckets], 0.0)
    if stage.tiers is not None:
        tiers = np.array([one.tier for one in buckets])
        for tier in set(tiers.tolist()):
            held = tokens[tiers == tier].sum()
            factor = stage.tiers.get(tier, 0.0) / held if held else 0.0
            tokens[tiers == tier] *= factor
    total = float(tokens.sum())
    if total <= 0:
        wanted = f" of tier {', '.join(stage.tiers)}" if stage.tiers else ""
        raise UserError(
            f"no document{wanted} fits into the {stage.sequence_tokens} tokens of a stage",
            "Change `curriculum.stages` or select other traces.",
        )
    return tokens / total


def slot_buckets(weights: Floats, first: int, count: int) -> Ints:
    """Buckets of `count` slots of a stage from slot `first` on, int64 [count]."""
    places = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        points = (places * _GOLDEN >> np.uint64(11)).astype(np.float64) * 2.0**-53
    ends = np.cumsum(weights)[:-1]
    found = np.searchsorted(ends, points, side="right").astype(np.int64)
    # Rounding may leave the last point of an empty bucket's border in it.
    empty = weights[found] == 0
    found[empty] = int(np.argmax(weights))
    return found


def bin_order(seed: int, bucket: int, turn: int, bins: int) -> Ints:
    """Permutation of a bucket's bins in its pass number `turn`, int64 [bins]."""
    generator = np.random.Generator(np.random.Philox(key=[seed, (bucket << 32) + turn]))
    return generator.permutation(bins).astype(np.int64)


_order = lru_cache(maxsize=64)(bin_order)


@dataclass
class Curriculum:
    """The bins of every step of a run.

    Args:
        stages: in their order.
        buckets: of the packed data.
        tokens_per_step: over all ranks; the same at every stage.
        seed: of the permutations.
    """

    stages: Sequence[Stage]
    buckets: Sequence[Bucket]
    tokens_per_step: int
    seed: int
    _weights: list[Floats] = field(init=False)
    _memo: tuple[tuple[int, ...], int, Ints] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._weights = [bucket_weights(stage, self.buckets) for stage in self.stages]

    def slots_per_step(self, stage: int) -> int:
        """Sequences of one step of this stage."""
        return max(1, self.tokens_per_step // self.stages[stage].sequence_tokens)

    def bins_per_slot(self, stage: int) -> Ints:
        """Bins of each bucket that fill a slot, int64 [buckets]; 0 where a bin is too long."""
        bands = np.array([one.band for one in self.buckets], dtype=np.int64)
        return self.stages[stage].sequence_tokens // bands

    def stage_of(self, step: int, starts: Sequence[int]) -> int:
        """The stage of a step, given the first step of every stage (0 first, ascending)."""
        return int(np.searchsorted(np.asarray(starts), step, side="right")) - 1

    def slots(self, step: int, starts: Sequence[int]) -> list[Slot]:
        """The sequences of a step (0-based), in their order."""
        stage = self.stage_of(step, starts)
        count, per_slot = self.slots_per_step(stage), self.bins_per_slot(stage)
        taken = self.taken(step, starts).copy()
        chosen = slot_buckets(self._weights[stage], (step - starts[stage]) * count, count)
        slots = []
        for bucket in chosen.tolist():
            size = int(per_slot[bucket])
            slots.append(Slot(bucket, self._bins(bucket, int(taken[bucket]), size)))
            taken[bucket] += size
        return slots

    def _bins(self, bucket: int, start: int, count: int) -> Ints:
        bins, first = self.buckets[bucket].bins, self.buckets[bucket].first
        places = range(start, start + count)
        inside = [_order(self.seed, bucket, p // bins, bins)[p % bins] for p in places]
        return np.array(inside, dtype=np.int64) + first

    def taken(self, step: int, starts: Sequence[int]) -> Ints:
        """Bins that each bucket has handed out before a step, int64 [buckets]."""
        key = tuple(starts)
        reached, counts = 0, np.zeros(len(self.buckets), dtype=np.int64)
        if self._memo is not None and self._memo[0] == key and self._memo[1] <= step:
            _, reached, counts = self._memo
        ends = [*starts[1:], step]
        for stage, start in enumerate(starts):
            low, high = max(start, reached), min(ends[stage], step)
            if low < high:
                counts = counts + self._between(stage, low - start, high - start)
        self._memo = (key, step, counts)
        return counts

    def _between(self, stage: int, low: int, high: int) -> Ints:
        per_step, total = self.slots_per_step(stage), np.zeros(len(self.buckets), dtype=np.int64)
        for first in range(low * per_step, high * per_step, _CHUNK):
            count = min(_CHUNK, high * per_step - first)
            chosen = slot_buckets(self._weights[stage], first, count)
            total += np.bincount(chosen, minlength=total.size)
        return total * self.bins_per_slot(stage)

    def passes(self, step: int, starts: Sequence[int]) -> Floats:
        """How often each bucket's bins have been handed out before a step, float64 [buckets]."""
        bins = np.array([max(1, one.bins) for one in self.buckets], dtype=np.float64)
        return self.taken(step, starts) / bins


def stage_starts(
    shares: Sequence[float],
    total_steps: int,
    progress: Callable[[int], float] | None = None,
) -> list[int]:
    """First step of every stage: where the run's progress reaches the shares before it.

    Args:
        shares: of the stages, in their order; only their proportion counts.
        total_steps: of the whole run.
        progress: share of the run that lies behind a step, in [0, 1], never falling;
            None for step / total_steps.
    """
    sums = np.cumsum(np.asarray(shares, dtype=np.float64))
    ends = (sums[:-1] / sums[-1] - _ROUNDING).tolist()
    behind = progress or (lambda step: step / total_steps)
    return [0, *(bisect_left(range(total_steps), end, key=behind) for end in ends)]
