"""Texts and columns come back as they went in, from any number of folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.corpus.copies.shard_store import (
    ENTRY,
    PROBLEM,
    Folders,
    TextWriter,
    hash64,
    hash128,
    read_text,
)

TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=9), min_size=1, max_size=9)


@settings(max_examples=30, deadline=None)
@given(TEXTS)
def test_texts_are_read_by_number(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    writer = TextWriter(folder, "t")
    assert [writer.add(text) for text in texts] == list(range(len(texts)))
    writer.close()
    assert [read_text(folder, "t", number) for number in range(len(texts))] == texts


def test_columns_of_all_folders_are_joined(tmp_path: Path) -> None:
    for number, rows in enumerate((2, 0, 3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        entries = np.zeros(rows, dtype=ENTRY)
        entries["gold"] = np.arange(rows) + 10 * number
        np.save(folder / "entries.npy", entries)
        problems = np.zeros(rows, dtype=PROBLEM)
        problems["problem"] = entries["gold"] + 1
        np.save(folder / "problems.npy", problems)
        bands = np.stack([entries["gold"], entries["gold"] * 2])
        np.save(folder / "signatures.npy", bands)
    folders = Folders([tmp_path / str(number) for number in range(3)])
    assert folders.column("gold").tolist() == [0, 1, 20, 21, 22]
    assert folders.problems("problem").tolist() == [1, 2, 21, 22, 23]
    assert folders.band(1).tolist() == [0, 2, 40, 42, 44]
    assert folders.counts("entries.npy").tolist() == [2, 0, 3]
    assert folders.entry(2, 1)["gold"] == 21


def test_an_entry_is_small_and_hashes_differ() -> None:
    assert ENTRY.itemsize <= 64
    assert len({hash64(f"{n}") for n in range(999)} | {0}) == 1000
    assert len({hash128(f"{n}") for n in range(999)}) == 999
