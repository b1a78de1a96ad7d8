"""Where the documents of one packed row lie, in the forms that the kernels read.

`PackedLengths` is made once a batch (entry.py) and handed to every layer; inside
the operator (op.py) its tensors become `Documents` again. No files are touched.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

import torch
from torch.nn.attention.flex_attention import BlockMask

SMALLEST_CAPACITY = 256
"""Documents that the bound tensors have room for; doubled where a row has more."""


class PackedLengths:
    """The documents of one packed row on one device. Treat it as frozen.

    A compiled layer reads the tensors and `tokens` alone, whose shapes and values
    do not depend on how a row of T tokens is cut into documents. A plain class,
    since compilers read every field of a frozen dataclass and would compile again
    for each new tuple of lengths.

    Attributes:
        lengths: tokens of each document.
        tokens: their sum, T.
        longest: tokens of the longest document.
        bounds: int32 [capacity + 1] on the device; where each document starts,
            then T until the end: empty documents behind the last one.
        host_bounds: the same on the CPU, readable without waiting for the device.
        kernels: names of the operator's backends, fastest first, joined by commas.
        blocks: blocks of scores to compute, if FlexAttention is to do it, else None.
    """

    __slots__ = ("blocks", "bounds", "host_bounds", "kernels", "lengths", "longest", "tokens")

    def __init__(
        self,
        lengths: tuple[int, ...],
        device: torch.device,
        kernels: tuple[str, ...],
        blocks: BlockMask | None,
    ) -> None:
        self.lengths = lengths
        self.tokens, self.longest = sum(lengths), max(lengths)
        self.host_bounds = _bounds(lengths)
        self.bounds = self.host_bounds.to(device)
        self.kernels, self.blocks = ",".join(kernels), blocks

    @property
    def cu_seqlens(self) -> torch.Tensor:
        """int32 [documents + 1] on the device: 0, then the end of each document."""
        return self.bounds[: len(self.lengths) + 1]


def _bounds(lengths: tuple[int, ...]) -> torch.Tensor:
    """Document starts on the CPU, filled up with T; see `PackedLengths.bounds`."""
    capacity = SMALLEST_CAPACITY
    while capacity < len(lengths):
        capacity *= 2
    starts = list(accumulate(lengths, initial=0))
    return torch.tensor(starts + starts[-1:] * (capacity + 1 - len(starts)), dtype=torch.int32)


class Documents(NamedTuple):
    """What one call of a kernel must know of the documents.

    Attributes:
        cu_seqlens: int32 [documents + 1] on the device.
        lengths: tokens of each document.
    """

    cu_seqlens: torch.Tensor
    lengths: tuple[int, ...]


def documents_in(bounds: torch.Tensor, host_bounds: torch.Tensor) -> Documents:
    """Read the documents back from `PackedLengths.bounds` and `.host_bounds`."""
    starts: list[int] = host_bounds.tolist()
    ends = starts[1 : bisect_left(starts, starts[-1]) + 1]
    lengths = tuple(end - start for start, end in zip(starts, ends, strict=False))
    return Documents(bounds[: len(lengths) + 1], lengths)
