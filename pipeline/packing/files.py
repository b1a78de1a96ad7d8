"""The packed corpus on the disk: flat arrays that train maps into memory.

Written by `python -m pipeline.tokenize` into work/tokenize/ (docs/packing.md has
the layout). Each array is replaced whole; manifest.json, with the hash of each,
comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.base.artifacts import replacing, sha256_file, write_jsonl
from pipeline.base.chat import Chat
from pipeline.packing.encoding import Document, prove_mask, trained_mask

SCHEMA_VERSION = 1
"""Of manifest.json; raised when the layout changes."""

PROVEN_SEQUENCES = 64
"""So many sequences, evenly spread, have their masks read back."""


def write_arrays(
    folder: Path, documents: Sequence[Document], sequences: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """Write the four arrays and documents.jsonl in storage order.

    Args:
        documents: all documents.
        sequences: numbers of the documents of each sequence.

    Returns:
        `{name: {"dtype", "shape", "sha256"}}` of the arrays, for the manifest.
    """
    stored = [documents[number] for numbers in sequences for number in numbers]
    lengths = np.array([len(one.ids) for one in stored], dtype=np.int32)
    counts = np.array([len(numbers) for numbers in sequences], dtype=np.int32)
    total = int(lengths.sum(dtype=np.int64))
    arrays = {
        "tokens": _write_flat(folder / "tokens.npy", (one.ids for one in stored), np.int32, total),
        "trained": _write_flat(
            folder / "trained.npy", (trained_mask(one) for one in stored), np.bool_, total
        ),
        "document_lengths": _write_flat(
            folder / "document_lengths.npy", [lengths], np.int32, lengths.size
        ),
        "sequence_documents": _write_flat(
            folder / "sequence_documents.npy", [counts], np.int32, counts.size
        ),
    }
    homes = np.repeat(np.arange(counts.size), counts).tolist()
    write_jsonl(
        folder / "documents.jsonl",
        (
            {
                "id": one.trace.id,
                "source": one.trace.source,
                "origin": one.trace.origin,
                "length": len(one.ids),
                "sequence": home,
            }
            for one, home in zip(stored, homes, strict=True)
        ),
    )
    return arrays


def _write_flat(
    path: Path, parts: Iterable[NDArray[Any]], dtype: type[np.generic], size: int
) -> dict[str, Any]:
    """Write parts end to end as one .npy file of `size` elements."""
    with replacing(path) as temporary:
        array = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=(size,))
        place = 0
        for part in parts:
            array[place : place + len(part)] = part
            place += len(part)
        array.flush()
        del array
    return {"dtype": np.dtype(dtype).name, "shape": [size], "sha256": sha256_file(path)}


def prove_masks(
    folder: Path,
    chat: Chat,
    documents: Sequence[Document],
    sequences: Sequence[Sequence[int]],
    most: int = PROVEN_SEQUENCES,
) -> int:
    """Read the stored masks of some sequences back; return how many documents were read.

    All sequences are read when there are at most `most`, else that many, evenly
    spread from first to last.

    Raises:
        UserError: a stored mask trains anything but a reply and its end token.
    """
    tokens = np.load(folder / "tokens.npy", mmap_mode="r")
    trained = np.load(folder / "trained.npy", mmap_mode="r")
    lengths = np.load(folder / "document_lengths.npy").astype(np.int64)
    ends = np.cumsum(lengths)
    first_of = np.cumsum([0, *(len(numbers) for numbers in sequences)])
    picked = np.unique(np.linspace(0, len(sequences) - 1, min(most, len(sequences))).astype(int))
    read = 0
    for sequence in picked.tolist():
        for offset, number in enumerate(sequences[sequence]):
            stored = int(first_of[sequence]) + offset
            span = slice(int(ends[stored] - lengths[stored]), int(ends[stored]))
            prove_mask(chat, documents[number].trace, tokens[span], trained[span])
            read += 1
    return read
