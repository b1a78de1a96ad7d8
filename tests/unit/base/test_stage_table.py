"""Every stage has the same tokens in a step and in a forward pass, on any number of ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.curriculum import Stage
from pipeline.base.errors import UserError
from pipeline.base.stage_table import (
    largest_micro_batch,
    micro_batch_sequences,
    sequences_per_step,
    stage_rows,
)

LENGTHS = (64, 128, 256, 512)


@pytest.mark.parametrize(
    ("tokens", "length", "ranks", "expected"),
    [(65536, 16384, 1, 4), (65536, 16384, 8, 8), (1000, 512, 1, 1), (64, 512, 2, 2), (30, 9, 2, 4)],
)
def test_sequences_of_a_step(tokens: int, length: int, ranks: int, expected: int) -> None:
    assert sequences_per_step(tokens, length, ranks) == expected


@pytest.mark.parametrize(
    ("sequences", "most", "expected"),
    [(4, 1, 1), (4, 3, 2), (4, 9, 4), (7, 6, 1), (12, 8, 6), (1, 0, 1)],
)
def test_a_micro_batch_divides_the_ranks_share(sequences: int, most: int, expected: int) -> None:
    assert largest_micro_batch(sequences, most) == expected


@given(
    lengths=st.lists(st.sampled_from(LENGTHS), min_size=1, max_size=5),
    shares=st.lists(st.integers(1, 9), min_size=5, max_size=5),
    ranks=st.integers(1, 9),
    wanted=st.integers(1, 20_000),
    most=st.integers(1, 9),
    total=st.integers(1, 3000),
)
def test_steps_passes_and_tokens_are_constant(
    lengths: list[int], shares: list[int], ranks: int, wanted: int, most: int, total: int
) -> None:
    longest = max(lengths)
    in_step = sequences_per_step(wanted, longest, ranks)
    micro = largest_micro_batch(in_step // ranks, most) * longest
    rows = stage_rows(
        [Stage(length, share) for length, share in zip(lengths, shares, strict=False)],
        total_steps=total,
        tokens_per_step=in_step * longest,
        micro_batch_tokens=micro,
        ranks=ranks,
    )
    assert sum(row.steps for row in rows) == total
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    for row in rows:
        assert row.sequences_per_step * row.sequence_tokens == in_step * longest
        assert row.micro_batch_sequences * row.sequence_tokens == micro
        assert row.micro_batch_sequences * row.accumulation * ranks == row.sequences_per_step
        assert row.tokens == row.steps * in_step * longest
        assert abs(row.steps - row.share * total) < 1.001


def test_a_length_that_does_not_divide_a_pass_is_refused() -> None:
    assert micro_batch_sequences(128, 512) == 4
    with pytest.raises(UserError, match=r"512 tokens of a forward pass .* sequences of 192"):
        micro_batch_sequences(192, 512)
