"""Tensor bytes of safetensors files, in chunks and without torch.

Reads F32, F16 and BF16; writes them too, rounding to nearest, ties to even, as
torch does. bfloat16, which numpy lacks, is handled as the upper half of a
float32's bits. Memory stays bounded by `CHUNK_ELEMENTS`, whatever the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pipeline.base.safetensors_file import BYTES_PER_ELEMENT, Header, TensorInfo

CHUNK_ELEMENTS = 4_194_304

FLOAT_BITS: dict[str, tuple[np.dtype[Any], int]] = {
    "F32": (np.dtype("<u4"), 0x7F800000),
    "F16": (np.dtype("<u2"), 0x7C00),
    "BF16": (np.dtype("<u2"), 0x7F80),
}
"""Type → its bits as an integer, and the bits of infinity."""

ONE_BITS = {"F32": 0x3F800000, "F16": 0x3C00, "BF16": 0x3F80}

SMALLEST_NORMAL = {"F32": 2.0**-126, "BF16": 2.0**-126, "F16": 2.0**-14}

CODES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""Type names of params.yaml → codes of the file format."""

Floats = npt.NDArray[np.float32]
Bits = npt.NDArray[Any]


@dataclass(frozen=True)
class Scan:
    """What the bits of one tensor say."""

    nonfinite: int
    """Elements that are NaN or infinite."""
    nonzero: int
    """Elements that are neither +0 nor -0."""
    not_one: int
    """Elements that are not exactly 1."""


def chunks(stream: BinaryIO, header: Header, info: TensorInfo) -> Iterator[Bits]:
    """Yield a float tensor's elements as unsigned integers, flattened, in order."""
    stream.seek(header.data_start + info.begin)
    left = info.elements
    while left:
        count = min(left, CHUNK_ELEMENTS)
        yield np.frombuffer(
            stream.read(count * BYTES_PER_ELEMENT[info.dtype]), FLOAT_BITS[info.dtype][0]
        )
        left -= count


def scan(stream: BinaryIO, header: Header, info: TensorInfo) -> Scan:
    """Count what is not finite, not zero and not one in one float tensor."""
    infinity = FLOAT_BITS[info.dtype][1]
    magnitude = (1 << (8 * BYTES_PER_ELEMENT[info.dtype] - 1)) - 1
    nonfinite = nonzero = not_one = 0
    for bits in chunks(stream, header, info):
        bare = bits & bits.dtype.type(magnitude)
        nonfinite += int(np.count_nonzero(bare >= infinity))
        nonzero += int(np.count_nonzero(bare))
        not_one += int(np.count_nonzero(bits != ONE_BITS[info.dtype]))
    return Scan(nonfinite, nonzero, not_one)


def decode(bits: Bits, dtype: str) -> Floats:
    """Values of F32, F16 or BF16 bits as float32, exactly."""
    if dtype == "BF16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits.view(np.float16).astype(np.float32) if dtype == "F16" else bits.view(np.float32)


def encode(values: Floats, dtype: str) -> Bits:
    """Bits of finite float32 values in another type, rounded to nearest even.

    A value too large for the type becomes infinite.
    """
    if dtype == "F32":
        return values.view(np.uint32)
    if dtype == "F16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)


@dataclass
class Rounding:
    """The largest errors that a conversion made."""

    absolute: float = 0.0
    relative: float = 0.0
    """Over values in the type's normal range; below it, steps are absolute."""

    def note(self, before: Floats, after: Floats, dtype: str) -> None:
        """Take one chunk into account."""
        error = np.abs(after - before)
        size = np.abs(before)
        normal = size >= SMALLEST_NORMAL[dtype]
        self.absolute = max(self.absolute, float(error.max(initial=0.0)))
        if normal.any():
            self.relative = max(self.relative, float((error[normal] / size[normal]).max()))


def write_safetensors(
    path: Path,
    shapes: dict[str, tuple[int, ...]],
    dtype: str,
    data: Callable[[str], Iterator[Bits]],
) -> None:
    """Write one file of tensors of one type, sorted by name; flushed to the disk.

    Args:
        path: written in place; callers use a temporary name.
        shapes: name → shape.
        dtype: type code, e.g. "BF16".
        data: name → chunks of that tensor's bits.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    reached = 0
    for name, shape in sorted(shapes.items()):
        end = reached + int(np.prod(shape, dtype=np.int64)) * BYTES_PER_ELEMENT[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [reached, end]}
        reached = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in sorted(shapes):
            for bits in data(name):
                stream.write(bits.tobytes())
        stream.flush()
        os.fsync(stream.fileno())
