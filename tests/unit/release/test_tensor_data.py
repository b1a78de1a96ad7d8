from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from pipeline.base.safetensors_file import read_header
from pipeline.release import tensor_data
from pipeline.release.tensor_data import Rounding, chunks, decode, encode, scan, write_safetensors

TORCH = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
@settings(max_examples=200, deadline=None)
def test_rounding_is_that_of_torch(numbers: list[float]) -> None:
    values = np.array(numbers, np.float32)
    for code, dtype in TORCH.items():
        theirs = torch.from_numpy(values.copy()).to(dtype).to(torch.float32).numpy()
        np.testing.assert_array_equal(decode(encode(values, code), code), theirs)


def test_ties_go_to_even() -> None:
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8], np.float32)
    np.testing.assert_array_equal(decode(encode(ties, "BF16"), "BF16"), [1.0, 1 + 2**-6])


def test_too_large_for_the_type_becomes_infinite() -> None:
    assert np.isinf(decode(encode(np.array([70000.0], np.float32), "F16"), "F16")).all()
    assert np.isinf(decode(encode(np.array([3.4e38], np.float32), "BF16"), "BF16")).all()


@pytest.mark.parametrize("dtype", TORCH.values(), ids=TORCH)
def test_scan_counts_in_every_type_over_chunks(
    dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_data, "CHUNK_ELEMENTS", 2)
    row = torch.tensor([0.0, -0.0, 1.0, float("nan"), float("-inf")], dtype=dtype)
    save_file({"a": torch.zeros(3, dtype=dtype), "b": row}, tmp_path / "x.safetensors")
    header = read_header(tmp_path / "x.safetensors")
    with (tmp_path / "x.safetensors").open("rb") as stream:
        quiet = scan(stream, header, header.tensors["a"])
        loud = scan(stream, header, header.tensors["b"])
    assert (quiet.nonfinite, quiet.nonzero) == (0, 0)
    assert (loud.nonfinite, loud.nonzero) == (2, 3)


def test_written_files_are_read_by_the_reference_reader(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    values = {"b": np.arange(6, dtype=np.float32), "a": np.array([0.5], np.float32)}
    shapes: dict[str, tuple[int, ...]] = {"b": (2, 3), "a": (1,)}
    write_safetensors(path, shapes, "BF16", lambda name: iter([encode(values[name], "BF16")]))
    loaded = load_file(path)
    assert loaded["b"].dtype == torch.bfloat16
    assert loaded["b"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert loaded["a"].tolist() == [0.5]
    assert list(read_header(path).tensors) == ["a", "b"]


def test_chunks_cover_a_tensor_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_data, "CHUNK_ELEMENTS", 4)
    save_file({"x": torch.arange(10.0)}, tmp_path / "x.safetensors")
    header = read_header(tmp_path / "x.safetensors")
    with (tmp_path / "x.safetensors").open("rb") as stream:
        parts = [decode(bits, "F32") for bits in chunks(stream, header, header.tensors["x"])]
    assert [len(part) for part in parts] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(10))


def test_relative_errors_leave_out_what_is_below_the_normal_range() -> None:
    rounding = Rounding()
    values = np.array([1e-7, 1.0], np.float32)
    rounding.note(values, decode(encode(values, "F16"), "F16"), "F16")
    assert rounding.relative == 0.0
    assert 0 < rounding.absolute < 1e-7
    rounding.note(np.array([1 + 2**-9], np.float32), np.array([1.0], np.float32), "BF16")
    assert rounding.absolute == 2**-9
    assert rounding.relative == pytest.approx(2**-9, rel=1e-2)
