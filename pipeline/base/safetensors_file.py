"""Read the header of a safetensors file without trusting it and without torch.

Format: 8 bytes little-endian header length, that many bytes of JSON, then the
tensor data (https://github.com/huggingface/safetensors, README "Format").
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_HEADER_BYTES = 100_000_000
"""The reference reader's own limit; a longer header is an attack or damage."""

BYTES_PER_ELEMENT = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2,
    "I16": 2, "U16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip


class DamagedFile(Exception):
    """The file is not a well-formed safetensors file; the text says where."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor's place in the file; offsets count from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """All tensors of a file, by name, and where their data starts."""

    tensors: dict[str, TensorInfo]
    data_start: int


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DamagedFile(f"key {twice!r} occurs twice in the header")
    return dict(pairs)


def _tensor(name: str, entry: Any, data_bytes: int) -> TensorInfo:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise DamagedFile(
            f"tensor {name!r} has fields {sorted(entry) if isinstance(entry, dict) else entry!r}"
        )
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BYTES_PER_ELEMENT:
        raise DamagedFile(f"tensor {name!r} has dtype {dtype!r}")
    for label, numbers in (("shape", shape), ("data_offsets", offsets)):
        if not isinstance(numbers, list) or any(type(n) is not int or n < 0 for n in numbers):
            raise DamagedFile(f"tensor {name!r} has {label} {numbers!r}")
    if len(offsets) != 2 or not offsets[0] <= offsets[1] <= data_bytes:
        raise DamagedFile(
            f"tensor {name!r} has data_offsets {offsets!r} in {data_bytes} bytes of data"
        )
    info = TensorInfo(dtype, tuple(shape), offsets[0], offsets[1])
    if info.elements * BYTES_PER_ELEMENT[dtype] != info.end - info.begin:
        raise DamagedFile(f"tensor {name!r}: {dtype}{shape} does not fill bytes {offsets!r}")
    return info


def read_header(path: Path) -> Header:
    """Parse and check a header: bounds, gaps, overlaps, duplicates, types.

    Raises:
        DamagedFile: naming the first fault.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(MAX_HEADER_BYTES, size - 8):
            raise DamagedFile(f"header of {length} bytes in a file of {size} bytes")
        raw = stream.read(length)
    try:
        tree = json.loads(raw.decode("utf-8"), object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"header is not JSON ({error})") from None
    if not isinstance(tree, dict):
        raise DamagedFile("header is not an object")
    tree.pop("__metadata__", None)
    data_start = 8 + length
    tensors = {name: _tensor(name, entry, size - data_start) for name, entry in tree.items()}
    reached = 0
    for name, info in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if info.begin != reached:
            raise DamagedFile(f"tensor {name!r} starts at {info.begin}, expected {reached}")
        reached = info.end
    if reached != size - data_start:
        raise DamagedFile(f"{size - data_start - reached} bytes after the last tensor")
    return Header(tensors, data_start)
