"""Order and content of batches: every document once a pass, on any number of ranks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.learning.data import PackedData, epoch_order, micro_batches, step_sequences
from tests.support.packed import write_packed


@pytest.fixture
def data(tmp_path: Path) -> PackedData:
    return PackedData(write_packed(tmp_path / "data", sequences=7))


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 5))
def test_every_sequence_occurs_once_a_pass(sequences: int, per_step: int, seed: int) -> None:
    steps = -(-3 * sequences // per_step)
    stream = np.concatenate([step_sequences(seed, s, sequences, per_step) for s in range(steps)])
    for start in range(0, 3 * sequences, sequences):
        one_pass = stream[start : start + sequences]
        assert sorted(one_pass) == list(range(sequences))


def test_passes_differ_and_seeds_differ() -> None:
    assert list(epoch_order(0, 0, 50)) != list(epoch_order(0, 1, 50))
    assert list(epoch_order(0, 0, 50)) != list(epoch_order(1, 0, 50))
    assert list(epoch_order(3, 2, 50)) == list(epoch_order(3, 2, 50))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_ranks_share_a_step_without_loss(ranks: int, micro: int, rounds: int) -> None:
    chosen = np.arange(ranks * micro * rounds, dtype=np.int64)
    shares = [micro_batches(chosen, rank=r, ranks=ranks, micro_batch=micro) for r in range(ranks)]
    assert all(len(share) == rounds for share in shares)
    assert Counter(int(i) for share in shares for m in share for i in m) == Counter(chosen.tolist())


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
