"""Orders by seed that depend on the id alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.records import problem_id
from pipeline.corpus.copies.keyed_hash import (
    id_number,
    keyed_hash,
    number_id,
    rank_in_run,
    run_starts,
)


def test_an_id_is_a_number_and_back() -> None:
    for text in ("What is 1 + 1?", "x", ""):
        assert number_id(id_number(problem_id(text))) == problem_id(text)
    assert number_id(0) == "0" * 16


def test_the_finaliser_is_splitmix64() -> None:
    """With the key taken out again, the published finaliser is left: first output for seed 0."""
    key = keyed_hash.__globals__["hashlib"].sha256(b"p:0").digest()[:8]
    state = np.asarray([0x9E3779B97F4A7C15 ^ int.from_bytes(key, "little")], dtype=np.uint64)
    assert int(keyed_hash(state, "p", 0)[0]) == 0xE220A8397B1DCDAF


def test_numbers_are_even_and_orders_unrelated() -> None:
    ids = np.arange(4000, dtype=np.uint64)
    first = keyed_hash(ids, "panel", 0)
    assert len(np.unique(first)) == 4000
    assert abs(float((first < np.uint64(2**63)).mean()) - 0.5) < 0.03
    for other in (keyed_hash(ids, "panel", 1), keyed_hash(ids, "reserve", 0)):
        ranks = np.corrcoef(np.argsort(np.argsort(first)), np.argsort(np.argsort(other)))
        assert abs(ranks[0, 1]) < 0.06


@given(st.lists(st.integers(0, 3), max_size=12))
def test_ranks_in_runs(keys: list[int]) -> None:
    ordered = np.asarray(sorted(keys), dtype=np.int32)
    ranks = rank_in_run(run_starts(ordered))
    assert [ordered[: place + 1].tolist().count(key) - 1 for place, key in enumerate(ordered)] == (
        ranks.tolist()
    )
