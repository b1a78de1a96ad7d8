"""The packed corpus on the disk: flat arrays that train maps into memory.

Written by `python -m pipeline.tokenize` into work/tokenize/ (docs/packing.md has the
layout), from front to back, a block at a time, and hashed on the way. Each file is
replaced whole; manifest.json, with the hash of each array, comes last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pipeline.base.artifacts import replacing, require_free_space, sha256_file
from pipeline.packing.buckets import Layout
from pipeline.packing.encoded import Encoded

SCHEMA_VERSION = 2
"""Of manifest.json; raised when the layout changes."""
BLOCK_TOKENS = 2**26
"""Of one block in memory, 5 bytes each."""
BLOCK_LINES = 2**17


def write_packed(
    folder: Path, encoded: Encoded, layout: Layout, block_tokens: int = BLOCK_TOKENS
) -> dict[str, Any]:
    """Write the four arrays and documents.jsonl in the order of storage.

    Args:
        block_tokens: tokens that are in memory at a time; a document may have more.

    Returns:
        `{name: {"dtype", "shape", "sha256"}}` of the arrays, for the manifest.

    Raises:
        UserError: the disk has no room for it.
    """
    lengths = encoded.lengths[layout.documents]
    total = int(lengths.sum(dtype=np.int64))
    lines = 256 * len(lengths)
    require_free_space(folder, 5 * total + 4 * len(lengths) + lines, "the packed corpus")
    with ExitStack() as stack:
        tokens = _NpyWriter(stack, folder / "tokens.npy", np.dtype(np.int32), total)
        trained = _NpyWriter(stack, folder / "trained.npy", np.dtype(np.bool_), total)
        for ids, mask in _blocks(encoded, layout, block_tokens):
            tokens.write(ids)
            trained.write(mask)
        arrays = {"tokens": tokens.close(), "trained": trained.close()}
    arrays["document_lengths"] = _write_array(folder / "document_lengths.npy", lengths)
    arrays["sequence_documents"] = _write_array(folder / "sequence_documents.npy", layout.counts)
    _write_lines(folder / "documents.jsonl", encoded, layout)
    return arrays


class _NpyWriter:
    """One .npy file of known size, written from front to back.

    Args:
        stack: closes the file, and takes it away unless all went well.
    """

    def __init__(self, stack: ExitStack, path: Path, dtype: np.dtype[Any], size: int) -> None:
        self._path, self._about = path, {"dtype": dtype.name, "shape": [size]}
        self._stream = stack.enter_context(stack.enter_context(replacing(path)).open("w+b"))
        header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (size,)}
        npy.write_array_header_1_0(self._stream, header)
        self._stream.seek(0)
        self._hash = hashlib.sha256(self._stream.read())

    def write(self, block: NDArray[Any]) -> None:
        view = block.data.cast("B")
        self._stream.write(view)
        self._hash.update(view)

    def close(self) -> dict[str, Any]:
        """Write out what is buffered; what the manifest says of the array."""
        self._stream.flush()
        return {**self._about, "sha256": self._hash.hexdigest()}


def _write_array(path: Path, array: NDArray[Any]) -> dict[str, Any]:
    with ExitStack() as stack:
        writer = _NpyWriter(stack, path, array.dtype, len(array))
        writer.write(array)
        return writer.close()


def _blocks(
    encoded: Encoded, layout: Layout, most: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.bool_]]]:
    """Token ids and masks of stretches of whole documents, in the order of storage."""
    untrained = encoded.untrained()
    stops = np.cumsum(encoded.lengths[layout.documents], dtype=np.int64)
    done, first = 0, 0
    while first < len(stops):
        last = max(first + 1, int(np.searchsorted(stops, done + most, side="right")))
        documents = layout.documents[first:last]
        places = np.concatenate(([0], stops[first : last - 1] - done))
        order = np.argsort(documents)
        size = int(stops[last - 1]) - done
        ids = np.empty(size, dtype=np.int32)
        encoded.copy_tokens(documents[order], places[order], ids)
        yield ids, _mask(encoded, documents[order], places[order], size, untrained)
        done, first = int(stops[last - 1]), last


def _mask(
    encoded: Encoded,
    documents: NDArray[np.int32],
    places: NDArray[np.int64],
    size: int,
    untrained: NDArray[np.int32],
) -> NDArray[np.bool_]:
    """Masks of documents, given in ascending order with their places in a block."""
    mask = np.zeros(size, dtype=np.bool_)
    starts = (places + encoded.prompts[documents]).tolist()
    ends = (places + encoded.lengths[documents]).tolist()
    for start, end in zip(starts, ends):
        mask[start:end] = True
    if len(untrained):
        at = np.searchsorted(documents, untrained[:, 0])
        here = documents[np.minimum(at, len(documents) - 1)] == untrained[:, 0]
        for place, (_, start, stop) in zip(places[at[here]].tolist(), untrained[here].tolist()):
            mask[place + start : place + stop] = False
    return mask


def _write_lines(path: Path, encoded: Encoded, layout: Layout) -> None:
    """documents.jsonl: the line of each document, with the number of its sequence."""
    homes = np.repeat(np.arange(len(layout.counts)), layout.counts)
    with replacing(path) as temporary, temporary.open("wb") as stream:
        for first in range(0, len(homes), BLOCK_LINES):
            documents = layout.documents[first : first + BLOCK_LINES]
            order = np.argsort(documents)
            found = encoded.lines(documents[order])
            ends = zip(np.argsort(order).tolist(), homes[first : first + BLOCK_LINES].tolist())
            stream.writelines(b'%b, "sequence": %d}\n' % (found[at], home) for at, home in ends)


def array_faults(folder: Path, arrays: dict[str, Any]) -> list[str]:
    """What is wrong with the stored arrays, by the hashes of the manifest."""
    return [
        f"{folder / name}.npy does not have the bytes that the manifest names"
        for name, about in arrays.items()
        if sha256_file(folder / f"{name}.npy") != about["sha256"]
    ]
