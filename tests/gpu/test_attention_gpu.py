"""Attention backends on one CUDA device: against float64, without a leak, inside compiled layers.

make test MARKERS=gpu TESTS=tests/gpu
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipeline.learning.attention import (
    PackedLengths,
    attend_documents,
    capability_of,
    choose,
    dense,
    documents,
    packing_of,
    verified,
)
from pipeline.learning.attention.check import Case, cases_for, verify_backend
from pipeline.learning.attention.table import BACKENDS, first_fitting

pytestmark = pytest.mark.gpu
GPU = torch.device("cuda")
HALF, FULL, BRAIN = torch.float16, torch.float32, torch.bfloat16
STAND_IN = "sdpa"


def usable(backend: str, dtype: torch.dtype, head_dim: int) -> bool:
    return backend in choose("auto", capability_of(GPU), dtype, head_dim).names


def expect_right(backend: str, dtype: torch.dtype, head_dim: int, kv_heads: int) -> None:
    """The backend is right on every case where this device has it; else it is refused."""
    if not usable(backend, dtype, head_dim):
        reason = BACKENDS[backend].lacks(capability_of(GPU), dtype, head_dim)
        assert reason is not None
        return
    found = verify_backend(backend, GPU, dtype, head_dim=head_dim, kv_heads=kv_heads)
    print(f"{backend} {dtype} {head_dim} 4:{kv_heads} error {found.error:.2g}")
    assert found.reason is None


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("dtype", [BRAIN, HALF], ids=str)
@pytest.mark.parametrize("backend", ["cudnn", "varlen", "sdpa"])
def test_kernels_agree_with_float64(
    backend: str, dtype: torch.dtype, head_dim: int, kv_heads: int
) -> None:
    expect_right(backend, dtype, head_dim, kv_heads)


@pytest.mark.parametrize(
    ("dtype", "head_dim", "kv_heads"), [(BRAIN, 128, 1), (BRAIN, 128, 4), (HALF, 64, 2)]
)
def test_flex_agrees_with_float64(dtype: torch.dtype, head_dim: int, kv_heads: int) -> None:
    expect_right("flex", dtype, head_dim, kv_heads)


@pytest.mark.parametrize("head_dim", [80, 96, 256])
@pytest.mark.parametrize("backend", ["varlen", "sdpa"])
def test_other_head_sizes_agree_with_float64(backend: str, head_dim: int) -> None:
    expect_right(backend, BRAIN, head_dim, 2)


@pytest.mark.parametrize(
    ("kernel", "dtype", "head_dim"),
    [
        (dense.EFFICIENT, HALF, 128),  # what a card of capability 7.5 gets
        (dense.EFFICIENT, HALF, 80),
        (dense.EFFICIENT, BRAIN, 64),
        (dense.EFFICIENT, FULL, 64),
        (dense.EFFICIENT, FULL, 20),
        (dense.FLASH, BRAIN, 128),
        (dense.FLASH, HALF, 40),
        (dense.MATH, BRAIN, 20),
        (dense.MATH, FULL, 10),
        (dense.MATH, torch.float64, 16),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
@pytest.mark.parametrize("kv_heads", [1, 4])
def test_each_kernel_of_one_document_agrees_with_float64(
    kernel: dense.Dense,
    dtype: torch.dtype,
    head_dim: int,
    kv_heads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kernel is dense.FLASH and (capability_of(GPU) or (0, 0)) < (8, 0):
        assert dense.choose_dense("cuda", capability_of(GPU), dtype, head_dim) is not dense.FLASH
        return
    monkeypatch.setattr(documents, "choose_dense", lambda *_: kernel)
    found = verify_backend("sdpa", GPU, dtype, head_dim=head_dim, kv_heads=kv_heads)
    print(f"{kernel.name} {dtype} {head_dim} 4:{kv_heads} error {found.error:.2g}")
    assert found.reason is None


def test_all_that_this_device_has_passes_the_check_before_training() -> None:
    choice = choose("auto", capability_of(GPU), BRAIN, 128)
    kept, verdicts = verified(choice, GPU, BRAIN, head_dim=128, grouped=True)
    assert [verdict.reason for verdict in verdicts] == [None] * len(verdicts)
    assert kept.names == choice.names[: len(verdicts)]
    assert "varlen" in kept.names or (capability_of(GPU) or (0, 0)) < (8, 0)


def rows_for(backend: str) -> list[tuple[int, ...]]:
    """Rows of 1,024 tokens that the backend takes."""
    rows = [(512, 512), (256,) * 4, (1024,), (300, 1, 723), (100, 900, 24)]
    return [row for row in rows if BACKENDS[backend].takes(row)]


def heads(count: int, tokens: int = 1024) -> torch.Tensor:
    return torch.randn(1, tokens, count, 64, device=GPU, dtype=BRAIN).transpose(1, 2)


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_documents_are_strangers_to_each_other(backend: str) -> None:
    """A changed document leaves the others' output the same to the bit, and gets no gradient
    from them."""
    if not usable(backend, BRAIN, 64):
        assert BACKENDS[backend].lacks(capability_of(GPU), BRAIN, 64) is not None
        return
    row = next(row for row in rows_for(backend) if len(row) > 1)
    packing = packing_of(row, GPU, (backend, STAND_IN))
    assert first_fitting((backend, STAND_IN), row) == backend
    torch.manual_seed(0)
    leaves = [heads(n).requires_grad_() for n in (4, 2, 2)]
    module = torch.nn.Identity()
    out, _ = attend_documents(module, *leaves, None, document_lengths=packing)
    pieces = out.split(row, 1)
    for number in range(len(row)):
        grads = torch.autograd.grad(pieces[number].float().sum(), leaves, retain_graph=True)
        for grad in grads:
            parts = grad.split(row, 2)
            assert [bool(part.any()) for part in parts] == [n == number for n in range(len(row))]
        start = sum(row[:number])
        moved = [x.detach().clone() for x in leaves]
        for x in moved:
            x[:, :, start : start + 7] += 1
        other, _ = attend_documents(module, *moved, None, document_lengths=packing)
        same = [torch.equal(a, b) for a, b in zip(pieces, other.split(row, 1), strict=True)]
        assert same == [n != number for n in range(len(row))]


class Layer(torch.nn.Module):
    """A layer as transformers writes them, with grouped heads of 64."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = torch.nn.Linear(256, 256), torch.nn.Linear(256, 128)

    def forward(self, states: torch.Tensor, document_lengths: PackedLengths) -> torch.Tensor:
        q = self.query(states).unflatten(2, (4, 64)).transpose(1, 2)
        k = self.key(states).unflatten(2, (2, 64)).transpose(1, 2)
        out, _ = attend_documents(self, q, k, k * 2, None, document_lengths=document_lengths)
        return out.flatten(2)


def run(function: Any, states: torch.Tensor, packing: PackedLengths) -> list[torch.Tensor]:
    leaf = states.clone().requires_grad_()
    out = function(leaf, document_lengths=packing)
    out.float().square().sum().backward()
    assert leaf.grad is not None
    return [out.detach().float(), leaf.grad.float()]


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_one_compilation_of_a_layer_serves_all_lengths(backend: str) -> None:
    if not usable(backend, BRAIN, 64):
        assert BACKENDS[backend].lacks(capability_of(GPU), BRAIN, 64) is not None
        return
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = Layer().to(GPU, BRAIN)
    compiled = torch.compile(layer, fullgraph=True, dynamic=False)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for row in rows_for(backend):
            states = torch.randn(1, 1024, 256, device=GPU, dtype=BRAIN)
            found = run(compiled, states, packing_of(row, GPU, (backend, STAND_IN)))
            wanted = run(layer, states, packing_of(row, GPU))
            for ours, other in zip(found, wanted, strict=True):
                scale = float(other.abs().max())
                assert float((ours - other).abs().max()) < 4e-2 * scale


def test_a_kernel_may_change_from_row_to_row_in_one_compiled_layer() -> None:
    names = tuple(n for n in ("cudnn", "varlen", "sdpa") if usable(n, BRAIN, 64))
    torch._dynamo.reset()
    layer = Layer().to(GPU, BRAIN)
    compiled = torch.compile(layer, fullgraph=True, dynamic=False)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for row in rows_for("sdpa"):
            states = torch.randn(1, 1024, 256, device=GPU, dtype=BRAIN)
            found = run(compiled, states, packing_of(row, GPU, names))
            wanted = run(layer, states, packing_of(row, GPU))
            for ours, other in zip(found, wanted, strict=True):
                assert float((ours - other).abs().max()) < 4e-2 * float(other.abs().max())


def test_lengths_do_not_make_the_host_wait() -> None:
    """No kernel reads its lengths from the device, which would stop the queue in each layer."""
    names = choose("auto", capability_of(GPU), BRAIN, 64).names
    names = tuple(name for name in names if BACKENDS[name].kernel is not None)
    for row in rows_for("sdpa"):
        packing = packing_of(row, GPU, names)
        leaves = [heads(n).requires_grad_() for n in (4, 2, 2)]
        grad = torch.ones(1, 1024, 4, 64, device=GPU, dtype=BRAIN)
        module = torch.nn.Identity()
        for mode in ("default", "error"):  # the first call of a kernel may set itself up
            torch.cuda.set_sync_debug_mode(mode)
            try:
                out, _ = attend_documents(module, *leaves, None, document_lengths=packing)
                torch.autograd.grad(out, leaves, grad)
            finally:
                torch.cuda.set_sync_debug_mode("default")


def test_the_check_finds_a_fault_of_a_real_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = dense.choose_dense("cuda", capability_of(GPU), HALF, 64)
    shifted = wrong._replace(
        backward=lambda grad, saved, scale: wrong.backward(grad, saved, scale * 1.05)
    )
    monkeypatch.setattr(documents, "choose_dense", lambda *_: shifted)
    cases: list[Case] = cases_for("sdpa")[-2:]
    found = verify_backend("sdpa", GPU, HALF, head_dim=64, cases=cases)
    assert found.reason is not None
