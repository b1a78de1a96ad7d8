"""A table finds what was put in and nothing else, even where many keys begin alike."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.overlap.hash_table import HashTable

HASHES = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 9), st.integers(2**64 - 9, 2**64 - 1))


@given(st.lists(st.tuples(HASHES, st.integers(0, 5)), max_size=30), st.lists(HASHES, max_size=20))
def test_everything_that_was_put_in_is_found(
    pairs: list[tuple[int, int]], others: list[int]
) -> None:
    hashes = np.array([one for one, _ in pairs], np.uint64)
    table = HashTable.build(hashes, np.array([item for _, item in pairs], np.int64))
    wanted = np.array([*(one for one, _ in pairs), *others], np.uint64)
    rows, items, keys = table.look_up(wanted, np.arange(len(wanted), dtype=np.int32))
    found = sorted(zip(rows.tolist(), items.tolist(), strict=True))
    held = sorted(
        {
            (row, item)
            for row, one in enumerate(wanted.tolist())
            for key, item in pairs
            if key == one
        }
    )
    assert found == held
    assert table.keys[keys].tolist() == wanted[rows].tolist()
