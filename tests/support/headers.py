"""Safetensors files that lie, by the thousand: a seeded fuzzer of headers. No torch."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import safetensors

from pipeline.base.safetensors_file import DamagedFile, read_header

NUMBERS = (
    -1, 0, 1, 3, 4, 7, 8, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64,
    10**30, 0.5, 1e308, True, None, "8", [8], {},
)  # fmt: skip
TYPES = ("F32", "BF16", "F16", "F8_E4M3", "F8_E8M0", "F4", "I64", "BOOL", "f32", "", 4, None)
NAMES = ("a", "b", "", "__metadata__", "\u0430", "\U0001f600", "a\n", "x" * 300)
GOOD: dict[str, Any] = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
    "c": {"dtype": "F16", "shape": [], "data_offsets": [32, 34]},
}
DATA_BYTES = 34


def _change_tree(chance: random.Random, tree: dict[str, Any]) -> None:
    name = chance.choice(list(tree))
    value = tree[name]
    what = chance.randrange(6)
    if what == 0:
        tree[chance.choice(NAMES)] = deepcopy(chance.choice([value, *NUMBERS]))
    elif what == 1:
        del tree[name]
    elif isinstance(value, dict) and value:
        field = chance.choice(list(value))
        if isinstance(value[field], list) and value[field] and what > 2:
            value[field][chance.randrange(len(value[field]))] = deepcopy(chance.choice(NUMBERS))
        else:
            value[field] = deepcopy(chance.choice([*NUMBERS, *TYPES]))


def _change_bytes(chance: random.Random, raw: bytearray) -> None:
    at = chance.randrange(len(raw))
    what = chance.randrange(4)
    if what == 0:
        raw[at] = chance.randrange(256)
    elif what == 1:
        del raw[at : at + chance.randrange(1, 9)]
    elif what == 2:
        raw[at:at] = raw[at : at + chance.randrange(1, 99)]
    else:
        raw[at:at] = chance.choice([b"[" * 2000, b"9" * 30, b'"', b"{", b"\\ud800", b"NaN", b"\0"])


def files(seed: int, count: int) -> Iterator[bytes]:
    """`count` files, some sound, most not; the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        tree = json.loads(json.dumps(GOOD))
        for _ in range(chance.choice((0, 1, 1, 2, 3))):
            if tree:
                _change_tree(chance, tree)
        raw = bytearray(json.dumps(tree, ensure_ascii=chance.random() < 0.5).encode())
        for _ in range(chance.choice((0, 0, 1, 2))):
            if raw:
                _change_bytes(chance, raw)
        length = (
            len(raw) if chance.random() < 0.9 else chance.choice((0, 1, 2**31, 2**63, 2**64 - 1))
        )
        data = bytes(DATA_BYTES if chance.random() < 0.9 else chance.randrange(64))
        yield length.to_bytes(8, "little") + raw + data


def disagreement(path: Path, whole: bytes) -> str | None:
    """What this reader accepts and the reference does not, or reads otherwise; else None.

    The opposite is no fault: this reader may be the stricter one. Any other exception
    than DamagedFile is the caller's to see.
    """
    path.write_bytes(whole)
    try:
        header = read_header(path)
    except DamagedFile:
        return None
    try:
        reference = safetensors.deserialize(whole)
    except safetensors.SafetensorError as error:
        return f"{whole!r}: accepted, but the reference says {error}"
    wanted = {name: (info["dtype"], tuple(info["shape"])) for name, info in reference}
    found = {name: (info.dtype, info.shape) for name, info in header.tensors.items()}
    return None if found == wanted else f"{whole!r}: {found} and not {wanted}"


def accepted(folder: Path, seed: int, count: int, told: Callable[[str], object]) -> int:
    """Files of `count` that the reference accepts too; every disagreement is told."""
    passed = 0
    for whole in files(seed, count):
        found = disagreement(folder / "fuzzed", whole)
        if found is not None:
            told(found)
        try:
            safetensors.deserialize(whole)
            passed += 1
        except safetensors.SafetensorError:
            pass
    return passed
