"""Each kernel behind the operator: against float64, in its layouts, for all head groups."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipeline.learning.attention import dense, documents, equal, varlen
from pipeline.learning.attention.check import Case, by_backend, error_of, make_inputs, reference
from pipeline.learning.attention.dense import choose_dense
from tests.support.attention_ops import stand_in

CPU = torch.device("cpu")
UNEQUAL = Case("unequal", (5, 33, 1, 130))
EQUAL = Case("equal", (128, 128))


def check(
    backend: str, case: Case, kv_heads: int, dtype: torch.dtype = torch.float32, size: int = 16
) -> float:
    q, k, v, grad = make_inputs(case, 4, kv_heads, size, dtype, CPU)
    found = by_backend(backend, (q, k, v), grad, case.lengths)
    assert [x.dtype for x in found] == [dtype] * 4
    return error_of(found, reference((q, k, v), grad, case.lengths), case.lengths)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("case", [UNEQUAL, EQUAL, Case("zeros", (40, 50), zeros=True)])
@pytest.mark.parametrize("kernel", [dense.CPU, dense.MATH], ids=lambda kernel: kernel.name)
def test_every_device_computes_what_the_reference_does(
    kernel: dense.Dense, case: Case, kv_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "choose_dense", lambda *_: kernel)
    assert check("sdpa", case, kv_heads) < 1e-5


@pytest.mark.parametrize(
    ("dtype", "limit"), [(torch.float16, 4e-3), (torch.bfloat16, 3e-2), (torch.float64, 1e-12)]
)
def test_every_type_is_computed(dtype: torch.dtype, limit: float) -> None:
    assert check("sdpa", UNEQUAL, 2, dtype) < limit


def test_the_written_out_kernel_may_take_rows_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "choose_dense", lambda *_: dense.MATH)
    monkeypatch.setattr(dense, "SCORES_AT_ONCE", 4 * 130 * 7)
    assert check("sdpa", UNEQUAL, 2) < 1e-5


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize(
    ("kernel", "called"),
    [
        (dense.FLASH, "_scaled_dot_product_flash_attention"),
        (dense.EFFICIENT, "_scaled_dot_product_efficient_attention"),
    ],
    ids=["flash", "efficient"],
)
def test_kernels_of_a_gpu_are_called_as_torch_defines_them(
    kernel: dense.Dense, called: str, kv_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = stand_in(monkeypatch)
    monkeypatch.setattr(documents, "choose_dense", lambda *_: kernel)
    assert check("sdpa", UNEQUAL, kv_heads) < 1e-5
    assert set(calls) == {called, f"{called}_backward"}
    assert len(calls) == 2 * len(UNEQUAL.lengths)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("case", [UNEQUAL, EQUAL])
def test_one_call_for_all_documents(
    case: Case, kv_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = stand_in(monkeypatch)
    assert check("varlen", case, kv_heads) < 1e-5
    assert calls == ["_flash_attention_forward", "_flash_attention_backward"]


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("lengths", [(128, 128, 128), (256,)])
def test_equal_documents_are_a_batch(
    lengths: tuple[int, ...], kv_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = stand_in(monkeypatch)
    assert check("cudnn", Case("equal", lengths), kv_heads) < 1e-5
    name = "_scaled_dot_product_cudnn_attention"
    assert calls == [name, f"{name}_backward"]


def test_a_batch_is_a_view_of_the_row() -> None:
    row = torch.arange(24.0).view(1, 6, 2, 2).transpose(1, 2)
    batch = equal.as_batch(row, 3)
    assert batch.data_ptr() == row.data_ptr()
    torch.testing.assert_close(batch[1, 0], row[0, 0, 2:4])
    back = equal.as_row(batch)
    assert back.data_ptr() == row.data_ptr()
    torch.testing.assert_close(back, row)


@pytest.mark.parametrize(
    ("lengths", "taken"),
    [((128,), True), ((256, 256), True), ((128, 256), False), ((100, 100), False), ((64,), False)],
)
def test_which_documents_are_equal(lengths: tuple[int, ...], taken: bool) -> None:
    assert equal.takes(lengths) is taken


def test_unknown_log_sums_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    forward = torch.ops.aten._flash_attention_forward

    def padded(*given: Any, **keywords: Any) -> Any:
        out, sums, *rest = forward(*given, **keywords)
        return (out, sums[None], *rest)

    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", padded)
    with pytest.raises(RuntimeError, match=r"unknown shape \(1, 4, 169\)"):
        check("varlen", UNEQUAL, 2)


def test_this_torch_has_the_signature_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    varlen.known_signature.cache_clear()
    assert varlen.known_signature()
    for changed in (("key", *varlen.FORWARD[1:]), (*varlen.FORWARD, "more")):
        varlen.known_signature.cache_clear()
        monkeypatch.setattr(varlen, "FORWARD", changed)
        assert not varlen.known_signature()
    varlen.known_signature.cache_clear()
    monkeypatch.delattr(torch.ops.aten, "_flash_attention_forward")
    monkeypatch.setattr(type(torch.ops.aten), "__getattr__", object.__getattribute__)
    assert not varlen.known_signature()
    varlen.known_signature.cache_clear()


HALF, FULL, BRAIN = torch.float16, torch.float32, torch.bfloat16


@pytest.mark.parametrize(
    ("device", "capability", "dtype", "head_dim", "kernel"),
    [
        ("cpu", None, BRAIN, 5, "cpu"),
        ("cpu", None, torch.float64, 64, "math"),
        ("mps", None, HALF, 64, "math"),
        ("cuda", (9, 0), BRAIN, 128, "flash"),
        ("cuda", (8, 0), HALF, 256, "flash"),
        ("cuda", (8, 9), HALF, 192, "flash"),
        ("cuda", (8, 9), HALF, 256, "efficient"),
        ("cuda", (12, 0), BRAIN, 256, "efficient"),
        ("cuda", (8, 0), HALF, 264, "efficient"),
        ("cuda", (9, 0), FULL, 64, "efficient"),
        ("cuda", (9, 0), FULL, 4, "efficient"),
        ("cuda", (9, 0), BRAIN, 4, "math"),
        ("cuda", (9, 0), FULL, 5, "math"),
        ("cuda", (9, 0), torch.float64, 64, "math"),
        ("cuda", (7, 5), HALF, 128, "efficient"),
        ("cuda", (7, 5), BRAIN, 128, "math"),
    ],
)
def test_the_kernel_of_one_document_follows_the_device(
    device: str, capability: Any, dtype: torch.dtype, head_dim: int, kernel: str
) -> None:
    assert choose_dense(device, capability, dtype, head_dim).name == kernel
