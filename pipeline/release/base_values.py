"""Contract term: no tensor of the adapter is one of the base, nor a slice of one.

A tensor of the base under the name of an adapter's would publish a part of the base.
The base's weights are streamed once, in chunks, on the processor; no torch. Each
adapter tensor gives an anchor, seven neighbouring values that are not all alike. Where
the base holds a word of it, the whole tensor is compared there: as rows and columns cut
out of a matrix, as its transpose, and as a run of values. Judged by contract.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.base.adapter_format import WEIGHTS_FILE
from pipeline.base.fingerprint import weight_files
from pipeline.base.safetensors_file import Header, TensorInfo, read_header, told
from pipeline.release.case import Broken, Case, Finding, Rule
from pipeline.release.tensor_data import FLOAT_BITS, Bits, decode, encode

Keys = npt.NDArray[np.uint16]
Places = npt.NDArray[np.int64]

CHUNK_ELEMENTS = 524_288
"""Small enough that what is made of a chunk stays in the processor's caches."""
WINDOW = 4
"""Keys of 16 bits that fill one word."""
ANCHOR = 2 * WINDOW - 1
"""Values of an anchor: wherever it lies, one of its words is on the grid of all words."""
ALIKE = 0x0001_0001_0001_0001
"""Times a key: the word of four equal keys."""
MIN_ELEMENTS = 16
"""Fewer values can agree by chance, and give nothing of a base away."""
SIEVE_BITS = 20
SIEVE_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio, which spreads words evenly (Knuth, vol. 3, 6.4)."""


@dataclass(frozen=True)
class Needle:
    """One adapter tensor as it might lie in the base."""

    name: str
    bits: Bits
    """[rows, columns], in the adapter's type; a transpose is a needle of its own."""
    row: int
    column: int
    """Where its anchor begins."""

    def words(self) -> list[int]:
        """The words of its anchor; the place of each is how far it is from the start."""
        keys = keys_of(self.bits[self.row, self.column : self.column + ANCHOR])
        return [int(word) for word in words(np.ascontiguousarray(keys), 1)]


@dataclass(frozen=True)
class Hay:
    """One tensor of the base as a matrix, read where it is looked at."""

    data: npt.NDArray[Any]
    """[rows, columns], unsigned integers mapped from the file."""
    dtype: str

    def cut(self, rows: slice, columns: slice, dtype: str) -> Bits:
        """A part of it, rounded to another type."""
        return in_type(np.ascontiguousarray(self.data[rows, columns]), self.dtype, dtype)


def in_type(bits: Bits, source: str, target: str) -> Bits:
    """Bits of one float type as another, rounded to nearest even."""
    return bits if source == target else encode(decode(bits, source), target)


def keys_of(bits: Bits) -> Keys:
    """Sixteen bits of each value: all of a half, the upper ones of a float32."""
    return bits if bits.itemsize == 2 else (bits >> np.uint32(16)).astype(np.uint16)


def words(keys: Keys, step: int) -> npt.NDArray[np.uint64]:
    """Every window of four keys, `step` apart, of a flat array, as one number each."""
    count = max(keys.size - (WINDOW - 1) * step, 0)
    found = np.zeros(count, np.uint64)
    for place in range(WINDOW):
        part = keys[place * step : place * step + count].astype(np.uint64)
        found |= part << np.uint64(16 * place)
    return found


class Sieve:
    """Which words may be one of a few, at the cost of one table look-up each."""

    def __init__(self, wanted: npt.NDArray[np.uint64]) -> None:
        self.wanted = np.unique(wanted)
        self.table = np.zeros(1 << SIEVE_BITS, np.bool_)
        self.table[self._slot(self.wanted)] = True

    def _slot(self, found: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        return (found * SIEVE_FACTOR) >> np.uint64(64 - SIEVE_BITS)

    def places(self, found: npt.NDArray[np.uint64]) -> Places:
        """Indices of the words that are wanted."""
        maybe = np.flatnonzero(self.table[self._slot(found)])
        right: Places = maybe[np.isin(found[maybe], self.wanted)]
        return right

    def neighbours(self, keys: Keys, phases: int) -> Iterator[tuple[int, int]]:
        """Place and word of each wanted window that begins at 0 to `phases` on a grid of four."""
        for phase in range(phases):
            count = (keys.size - phase) // WINDOW
            # Windows that do not overlap are words already: no arithmetic.
            found = np.frombuffer(keys, "<u8", max(count, 0), 2 * phase if count > 0 else 0)
            for place in self.places(found).tolist():
                yield place * WINDOW + phase, int(found[place])


def anchor(bits: Bits) -> tuple[int, int] | None:
    """Row and column, in the first rows, of the anchor whose words differ most in themselves.

    None where no row is long enough or all values are alike: nothing to find. A word of
    equal values is none to look for, since a base may hold long stretches of zeros; so the
    poorest word of an anchor counts.
    """
    if bits.shape[1] < WINDOW:
        return None
    keys = keys_of(np.ascontiguousarray(bits[: max(1, 4096 // bits.shape[1])]))
    ordered = np.sort(np.lib.stride_tricks.sliding_window_view(keys, WINDOW, axis=1), axis=-1)
    different = (ordered[..., 1:] != ordered[..., :-1]).sum(axis=-1)
    if not different.max():
        return None
    together = min(WINDOW, different.shape[1])
    poorest = np.lib.stride_tricks.sliding_window_view(different, together, axis=1).min(axis=-1)
    best = poorest if poorest.max() else different
    row, column = np.unravel_index(int(best.argmax()), best.shape)
    return int(row), int(column)


def mapped(path: Path, header: Header, info: TensorInfo) -> npt.NDArray[Any]:
    """One float tensor of a file as a matrix of bits; vectors are matrices of one row."""
    start = header.data_start + info.begin
    flat = np.memmap(path, FLOAT_BITS[info.dtype][0], "r", start, (info.elements,))
    return flat.reshape(-1, info.shape[-1] if info.shape else 1)


def needles(path: Path, header: Header) -> Iterator[Needle]:
    """Each tensor of the adapter, and its transpose where that is another matrix."""
    for name, info in header.tensors.items():
        matrix = mapped(path, header, info)
        if matrix.size < MIN_ELEMENTS:
            continue
        flat = 1 in matrix.shape
        for way in [matrix.reshape(1, -1)] if flat else [matrix, matrix.T]:
            place = anchor(way)
            if place is not None:
                yield Needle(name, way, *place)


def is_at(needle: Needle, hay: Hay, dtype: str, place: int) -> bool:
    """Whether the whole needle lies in a base tensor whose flat index `place` has its anchor."""
    rows, columns = needle.bits.shape
    if place < 0:
        return False
    line, column = divmod(place, hay.data.shape[1])
    top, left = line - needle.row, column - needle.column
    if top >= 0 and left >= 0:
        cut = hay.cut(slice(top, top + rows), slice(left, left + columns), dtype)
        if np.array_equal(cut, needle.bits):
            return True
    start = place - needle.row * columns - needle.column
    if start < 0 or start + needle.bits.size > hay.data.size:
        return False
    run = hay.data.reshape(-1)[start : start + needle.bits.size]
    return np.array_equal(in_type(run, hay.dtype, dtype), needle.bits.reshape(-1))


class Search:
    """All needles against one base tensor after another."""

    def __init__(self, found: list[Needle], dtype: str) -> None:
        self.dtype = dtype
        self.by_word: dict[int, list[tuple[int, Needle]]] = defaultdict(list)
        self.phases = 1
        for needle in found:
            telling = [(s, w) for s, w in enumerate(needle.words()) if w != (w & 0xFFFF) * ALIKE]
            for shift, word in telling:
                self.by_word[word].append((shift, needle))
            if len(telling) < WINDOW:
                self.phases = WINDOW
        self.sieve = Sieve(np.array(list(self.by_word), np.uint64))
        # A narrow slice of columns has no row of four: its transpose is looked for downwards.
        self.downwards = any(needle.bits.shape[0] < WINDOW for needle in found)

    def hits(self, hay: Hay) -> Iterator[Needle]:
        """Needles that lie in one base tensor."""
        width = hay.data.shape[1]
        rows = max(1, CHUNK_ELEMENTS // width)
        for top in range(0, hay.data.shape[0], rows):
            part = hay.cut(slice(top, top + rows + WINDOW - 1), slice(None), self.dtype)
            keys = keys_of(part.reshape(-1))
            yield from self._in_rows(keys, top * width, hay)
            if self.downwards and width > 1:
                yield from self._in_columns(words(keys, width), top, hay)

    def _in_rows(self, keys: Keys, start: int, hay: Hay) -> Iterator[Needle]:
        for place, word in self.sieve.neighbours(keys, self.phases):
            for shift, needle in self.by_word[word]:
                if is_at(needle, hay, self.dtype, start + place - shift):
                    yield needle

    def _in_columns(self, found: npt.NDArray[np.uint64], top: int, hay: Hay) -> Iterator[Needle]:
        turned = Hay(hay.data.T, hay.dtype)
        height, width = turned.data.shape[1], hay.data.shape[1]
        for place in self.sieve.places(found).tolist():
            line, column = divmod(place, width)
            for shift, needle in self.by_word[int(found[place])]:
                start = column * height + top + line - shift
                if needle.bits.shape[0] < WINDOW and is_at(needle, turned, self.dtype, start):
                    yield needle


def base_tensors(base: Path) -> Iterator[tuple[Path, str, TensorInfo, Header]]:
    """Every tensor of the base with its file."""
    for path in weight_files(base):
        header = read_header(path)
        for name, info in header.tensors.items():
            yield path, name, info, header


def no_base_values(case: Case) -> Finding:
    """No tensor of the file equals one of the base or a slice of one."""
    found = list(needles(case.folder / WEIGHTS_FILE, case.header))
    dtype = next(iter(case.header.tensors.values())).dtype
    search, looked_at, passed_over = Search(found, dtype), 0, 0
    for path, name, info, header in base_tensors(case.base):
        if info.dtype not in FLOAT_BITS or not info.elements:
            passed_over += 1
            continue
        looked_at += info.elements
        hay = Hay(mapped(path, header, info), info.dtype)
        hit = next(search.hits(hay), None)
        if hit is not None:
            raise Broken(f"tensor {told(hit.name)} holds values of the base's {told(name)}")
    more = f"; {passed_over} tensors of another type not compared" if passed_over else ""
    return Finding(0, 0, f"compared with {looked_at:,} values of the base{more}")


VALUE_RULE = Rule(
    "base-values",
    "no tensor of the base, nor a slice of one",
    ("tensor-names", "tensor-type", "elements", "pairs", "finite"),
    no_base_values,
)
