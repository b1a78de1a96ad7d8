"""Read the header of a safetensors file without trusting it and without torch.

Format: 8 bytes little-endian header length, that many bytes of JSON, then the
tensor data (https://github.com/huggingface/safetensors, README "Format").
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_HEADER_BYTES = 100_000_000
"""The reference reader's own limit; a longer header is an attack or damage."""

BYTES_PER_ELEMENT = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2,
    "I16": 2, "U16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip


MAX_NUMBER = 2**63 - 1
"""Largest size or offset of any reader; also bounds the work that a product costs."""

MAX_TOLD = 120
"""Characters of a foreign name or value that a message repeats."""


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
    metadata: dict[str, str] = field(default_factory=dict)
    """`__metadata__`: free text of the writer, which no reader of tensors needs."""


def told(value: object) -> str:
    """A foreign value for a message: printable, and cut where it is long."""
    text = repr(value)
    return text if len(text) <= MAX_TOLD else f"{text[:MAX_TOLD]}… ({len(text)} characters)"


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for name, value in pairs:
        if name in seen:
            raise DamagedFile(f"key {told(name)} occurs twice in the header")
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise DamagedFile(f"key {told(name)} is not Unicode text")
        seen[name] = value
    return seen


def _whole_number(text: str) -> int:
    if text[0] == "-" or len(text) > 20 or int(text) > MAX_NUMBER:
        raise DamagedFile(f"number {told(text)} in the header: no shape and no offset")
    return int(text)


def _count(shape: list[int]) -> int:
    """Elements of a shape; -1 when they are more than any reader can count."""
    count = 1
    for side in shape:
        count *= side
        if count > MAX_NUMBER:
            return -1
    return count


def _tensor(name: str, entry: Any, data_bytes: int) -> TensorInfo:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        fields = sorted(entry) if isinstance(entry, dict) else entry
        raise DamagedFile(f"tensor {told(name)} has fields {told(fields)}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BYTES_PER_ELEMENT:
        raise DamagedFile(f"tensor {told(name)} has dtype {told(dtype)}")
    for label, numbers in (("shape", shape), ("data_offsets", offsets)):
        if not isinstance(numbers, list) or any(type(n) is not int or n < 0 for n in numbers):
            raise DamagedFile(f"tensor {told(name)} has {label} {told(numbers)}")
    if len(offsets) != 2 or not offsets[0] <= offsets[1] <= data_bytes:
        raise DamagedFile(
            f"tensor {told(name)} has data_offsets {told(offsets)} in {data_bytes} bytes of data"
        )
    if _count(shape) * BYTES_PER_ELEMENT[dtype] != offsets[1] - offsets[0]:
        where = f"{dtype}{told(shape)} does not fill bytes {told(offsets)}"
        raise DamagedFile(f"tensor {told(name)}: {where}")
    return TensorInfo(dtype, tuple(shape), offsets[0], offsets[1])


def _metadata(tree: dict[str, Any]) -> dict[str, str]:
    metadata = tree.pop("__metadata__", None)
    if metadata is None:
        return {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise DamagedFile("__metadata__ is not an object of texts")
    return metadata


def parse_header(raw: bytes) -> dict[str, Any]:
    """The header's JSON object, as strictly as the reference reader takes it.

    Raises:
        DamagedFile: it does not begin with "{" or is no JSON object; a key occurs
            twice or is no text; a number is negative or above 2^63 - 1.
    """
    try:
        text = raw.decode("utf-8")
        tree = json.loads(text, object_pairs_hook=_refuse_duplicates, parse_int=_whole_number)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"header is not JSON ({told(str(error))})") from None
    if not isinstance(tree, dict):
        raise DamagedFile("header is not an object")
    if not text.startswith("{"):
        raise DamagedFile("header does not begin with '{'")
    return tree


def read_header(path: Path, max_header_bytes: int = MAX_HEADER_BYTES) -> Header:
    """Parse and check a header: bounds, gaps, overlaps, duplicates, types.

    Args:
        path: the file; no byte after its header is read.
        max_header_bytes: a longer header is refused before it is read.

    Raises:
        DamagedFile: naming the first fault.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(max_header_bytes, size - 8):
            raise DamagedFile(f"header of {length} bytes in a file of {size} bytes")
        raw = stream.read(length)
    tree = parse_header(raw)
    metadata = _metadata(tree)
    data_start = 8 + length
    tensors = {name: _tensor(name, entry, size - data_start) for name, entry in tree.items()}
    reached = 0
    for name, info in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if info.begin != reached:
            raise DamagedFile(f"tensor {told(name)} starts at {info.begin}, expected {reached}")
        reached = info.end
    if reached != size - data_start:
        raise DamagedFile(f"{size - data_start - reached} bytes after the last tensor")
    return Header(tensors, data_start, metadata)
