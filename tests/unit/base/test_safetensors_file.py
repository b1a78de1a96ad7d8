"""A header is believed only after every claim in it was checked."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from pipeline.base.safetensors_file import DamagedFile, read_header

GOOD = {
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
}


def written(folder: Path, header: Any, data: int = 32, length: int | None = None) -> Path:
    """A file with this header (text or JSON value) and so many bytes of data."""
    raw = (header if isinstance(header, str) else json.dumps(header)).encode()
    path = folder / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw) if length is None else length) + raw + bytes(data))
    return path


def changed(name: str, **fields: Any) -> dict[str, Any]:
    return GOOD | {name: GOOD[name] | fields}


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    tensors = {
        "weight": torch.zeros(3, 5, dtype=torch.bfloat16),
        "scalar": torch.zeros((), dtype=torch.int64),
        "empty": torch.zeros(0, 4),
    }
    save_file(tensors, str(tmp_path / "x"), metadata={"format": "pt"})
    header = read_header(tmp_path / "x")
    assert {name: info.shape for name, info in header.tensors.items()} == {
        "weight": (3, 5), "scalar": (), "empty": (0, 4),
    }  # fmt: skip
    assert header.tensors["weight"].dtype == "BF16"
    assert header.tensors["weight"].elements == 15
    assert header.tensors["scalar"].elements == 1
    size = (tmp_path / "x").stat().st_size
    assert header.data_start + max(info.end for info in header.tensors.values()) == size


def test_a_good_header_passes(tmp_path: Path) -> None:
    assert list(read_header(written(tmp_path, GOOD)).tensors) == ["a", "b"]
    assert read_header(written(tmp_path, {}, data=0)).tensors == {}


@pytest.mark.parametrize(
    ("header", "data", "told"),
    [
        (GOOD, 31, "data_offsets"),
        (GOOD, 33, "1 bytes after the last tensor"),
        (changed("b", data_offsets=[20, 28]), 32, "expected 24"),
        (changed("b", data_offsets=[28, 36]), 36, "expected 24"),
        (changed("a", shape=[2, 4]), 32, "does not fill"),
        (changed("a", shape=[-2, -3]), 32, "shape"),
        (changed("a", shape=[2, True]), 32, "shape"),
        (changed("a", shape="23"), 32, "shape"),
        (changed("a", shape=[2**62, 4]), 32, "does not fill"),
        (changed("a", data_offsets=[24, 0]), 32, "data_offsets"),
        (changed("a", data_offsets=[0, 24, 24]), 32, "data_offsets"),
        (changed("a", dtype="F33"), 32, "dtype 'F33'"),
        (changed("a", note=1), 32, "fields"),
        (GOOD | {"c": 3}, 32, "fields"),
        ([1], 32, "not an object"),
        ("{", 32, "not JSON"),
        ('{"a": 1, "a": 2}', 32, "occurs twice"),
        ("[" * 100_000, 32, "not JSON"),
    ],
)
def test_every_lie_is_found(tmp_path: Path, header: Any, data: int, told: str) -> None:
    with pytest.raises(DamagedFile, match=told):
        read_header(written(tmp_path, header, data))


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 10_000])
def test_a_header_longer_than_its_file_is_not_read(tmp_path: Path, length: int) -> None:
    with pytest.raises(DamagedFile, match=f"header of {length} bytes"):
        read_header(written(tmp_path, GOOD, length=length))


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "random.safetensors"
    path.write_bytes(raw)
    try:
        read_header(path)
    except DamagedFile:
        pass
