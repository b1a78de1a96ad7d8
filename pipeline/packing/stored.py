"""The finished folder of tokenize, opened for reading back.

Reads work/tokenize/; sample.py and whole.py use it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.base.errors import UserError


class Stored:
    """Documents as they lie on the disk.

    Attributes:
        lengths: tokens of every document, int32 [D].
        stops: one past its last token, int64 [D].
        counts: documents of every bin, int32 [S].
        firsts: number of the first document of every bin, and of all documents, int64 [S + 1].
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tokens: NDArray[np.int32] = _load(folder / "tokens.npy")
        self._trained: NDArray[np.bool_] = _load(folder / "trained.npy")
        self.lengths: NDArray[np.int32] = _load(folder / "document_lengths.npy")
        self.counts: NDArray[np.int32] = _load(folder / "sequence_documents.npy")
        self.stops: NDArray[np.int64] = np.cumsum(self.lengths, dtype=np.int64)
        self.firsts: NDArray[np.int64] = np.concatenate(
            ([0], np.cumsum(self.counts, dtype=np.int64))
        )
        sums = (self.stops[-1], self.stops[-1], self.firsts[-1])
        if sums != (len(self._tokens), len(self._trained), len(self.lengths)):
            raise UserError(
                f"{folder}: {sums[0]} tokens in {sums[2]} documents are announced,"
                f" {len(self._tokens)} tokens, {len(self._trained)} places of the mask and"
                f" {len(self.lengths)} documents are stored",
                "Run `dvc repro -f tokenize`.",
            )

    def document(self, number: int) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Token ids and mask of a document."""
        stop = int(self.stops[number])
        span = slice(stop - int(self.lengths[number]), stop)
        return self._tokens[span], self._trained[span]

    def sizes(self) -> NDArray[np.int64]:
        """Tokens of every bin, int64 [S]."""
        ends = np.concatenate(([0], self.stops))[self.firsts]
        return np.diff(ends)


def _load(path: Path) -> NDArray[Any]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: cannot be read ({error})", "Run `dvc repro -f tokenize`."
        ) from None
