"""The operator inside compiled layers: one compilation for all lengths, and no leak."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch.utils.flop_counter import FlopCounterMode

from pipeline.learning.attention import PackedLengths, attend_documents, packing_of
from pipeline.learning.attention.op import packed_attention
from pipeline.learning.attention.packing import SMALLEST_CAPACITY, documents_in
from tests.support.attention_ops import stand_in

CPU = torch.device("cpu")
CUTS = [(40, 24), (1, 2, 61), (64,), (8,) * 8]


def heads(count: int, tokens: int, size: int = 8, **options: Any) -> torch.Tensor:
    return torch.randn(1, tokens, count, size, **options).transpose(1, 2)


def arguments(lengths: tuple[int, ...], dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    tokens = sum(lengths)
    tensors = (heads(n, tokens, dtype=dtype).requires_grad_() for n in (4, 2, 2))
    packing = packing_of(lengths, CPU)
    return (*tensors, packing.bounds, packing.host_bounds, 0.3, "sdpa", 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_torch_finds_the_operator_sound(dtype: torch.dtype) -> None:
    torch.library.opcheck(packed_attention, arguments((10, 1, 20), dtype))


def test_gradients_are_those_of_the_output() -> None:
    *tensors, bounds, host, scale, kernels, window = arguments((3, 1, 4), torch.float64)

    def output(*qkv: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = packed_attention(*qkv, bounds, host, scale, kernels, window)[0]
        return out

    assert torch.autograd.gradcheck(output, tensors, fast_mode=True)


class Layer(torch.nn.Module):
    """A layer as transformers writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = torch.nn.Linear(32, 32), torch.nn.Linear(32, 16)

    def forward(self, states: torch.Tensor, **options: Any) -> torch.Tensor:
        q = self.query(states).unflatten(2, (4, 8)).transpose(1, 2)
        k = self.key(states).unflatten(2, (2, 8)).transpose(1, 2)
        out, _ = attend_documents(self, q, k, k * 2, None, **options)
        return out.flatten(2)


def run(function: Any, states: torch.Tensor, **options: Any) -> list[torch.Tensor]:
    states = states.clone().requires_grad_()
    out = function(states, **options)
    out.square().sum().backward()
    assert states.grad is not None
    return [out.detach(), states.grad]


@pytest.mark.parametrize("window", [None, 64])
def test_a_compiled_layer_takes_all_lengths_without_a_break(window: int | None) -> None:
    torch._dynamo.reset()
    counters.clear()
    layer = Layer()
    compiled = torch.compile(layer, fullgraph=True, dynamic=False, backend="aot_eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        for lengths in CUTS:
            states = torch.randn(1, 64, 32)
            options = {"document_lengths": packing_of(lengths, CPU), "sliding_window": window}
            found, wanted = run(compiled, states, **options), run(layer, states, **options)
            torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-6)
    assert counters["stats"]["unique_graphs"] == 1


def test_a_compiled_layer_still_refuses_what_could_leak() -> None:
    torch._dynamo.reset()
    layer = torch.compile(Layer(), fullgraph=True, dynamic=False, backend="aot_eager")
    states = torch.randn(1, 64, 32)
    layer(states, document_lengths=packing_of((32, 32), CPU), sliding_window=32)
    with pytest.raises(ValueError, match="window of 32"):
        layer(states, document_lengths=packing_of((24, 40), CPU), sliding_window=32)


def test_flex_is_compiled_into_the_layer_once_for_all_lengths() -> None:
    torch._dynamo.reset()
    layer = Layer()
    compiled = torch.compile(layer, fullgraph=True, dynamic=False, backend="aot_eager")
    with torch._dynamo.config.patch(error_on_recompile=True), torch.no_grad():
        for lengths in [(140, 24), (1, 2, 161), (164,), (82, 82)]:
            states = torch.randn(1, 164, 32)
            found = compiled(states, document_lengths=packing_of(lengths, CPU, ("flex", "sdpa")))
            wanted = layer(states, document_lengths=packing_of(lengths, CPU))
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["sdpa", "varlen", "cudnn"])
@pytest.mark.parametrize("changed", [0, 1, 2])
def test_other_documents_stay_the_same_to_the_bit(
    kernel: str, changed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch)
    lengths = (128,) * 3 if kernel == "cudnn" else (17, 30, 9)
    start = sum(lengths[:changed])
    packing = packing_of(lengths, CPU, (kernel, "sdpa"))
    qkv = [heads(n, sum(lengths)) for n in (4, 2, 2)]
    moved = [x.clone() for x in qkv]
    for x in moved:
        x[:, :, start] += 1

    def documents(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        leaves = [x.requires_grad_() for x in tensors]
        out, _ = attend_documents(torch.nn.Identity(), *leaves, None, document_lengths=packing)
        grads = torch.autograd.grad(out.square().sum(), leaves)
        parts = [out.detach().transpose(1, 2), *grads]
        return [torch.cat(part, 1) for part in zip(*(x.split(lengths, 2) for x in parts))]

    for number, (a, b) in enumerate(zip(documents(qkv), documents(moved), strict=True)):
        assert torch.equal(a, b) is (number != changed)


def test_the_kernel_is_chosen_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in(monkeypatch)
    for lengths in [(128, 128), (128, 129)]:
        packing = packing_of(lengths, CPU, ("cudnn", "varlen", "sdpa"))
        qkv = [heads(2, sum(lengths)) for _ in range(3)]
        attend_documents(torch.nn.Identity(), *qkv, None, document_lengths=packing)
    assert calls == ["_scaled_dot_product_cudnn_attention", "_flash_attention_forward"]


@pytest.mark.parametrize("lengths", [(7,), (1,) * 300, (5, 1, 9)])
def test_lengths_are_read_back_from_tensors_of_few_shapes(lengths: tuple[int, ...]) -> None:
    packing = packing_of(lengths, CPU)
    assert packing.bounds.shape == ((513,) if len(lengths) > SMALLEST_CAPACITY else (257,))
    assert packing.bounds.dtype is torch.int32
    assert packing.cu_seqlens.tolist() == [sum(lengths[:n]) for n in range(len(lengths) + 1)]
    found = documents_in(packing.bounds, packing.host_bounds)
    assert found.lengths == lengths
    assert torch.equal(found.cu_seqlens, packing.cu_seqlens)
    assert (packing.tokens, packing.longest) == (sum(lengths), max(lengths))


@pytest.mark.parametrize("lengths", [(), (4, 0, 3), (-1, 2)])
def test_documents_without_tokens_are_refused(lengths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="without tokens"):
        packing_of(lengths, CPU)


def test_a_row_described_in_an_evaluation_can_be_trained() -> None:
    with torch.inference_mode():
        packing = packing_of((11, 13, 17), CPU)
    assert not packing.bounds.is_inference()
    run(Layer(), torch.randn(1, 41, 32), document_lengths=packing)
    assert packing_of((11, 13, 17), CPU) is packing


def attend(packing: PackedLengths | tuple[int, ...], **options: Any) -> torch.Tensor:
    torch.manual_seed(0)
    qkv = [heads(n, 12) for n in (4, 2, 2)]
    module = torch.nn.Identity()
    out, _ = attend_documents(module, *qkv, None, document_lengths=packing, **options)
    return out


def test_a_wrong_number_of_tokens_is_refused_by_the_operator_too() -> None:
    *tensors, _, _, scale, kernels, window = arguments((5, 6))
    packing = packing_of((5, 7), CPU)
    with pytest.raises(ValueError, match="sum to 12, not 11"):
        packed_attention(*tensors, packing.bounds, packing.host_bounds, scale, kernels, window)


def test_a_plain_tuple_is_packed_on_the_way() -> None:
    assert torch.equal(attend((5, 7)), attend(packing_of((5, 7), CPU)))


def test_the_default_scale_is_that_of_the_head_size() -> None:
    assert torch.equal(attend((12,)), attend((12,), scaling=8**-0.5))
    assert not torch.equal(attend((12,)), attend((12,), scaling=1.0))


def test_autocast_decides_the_type() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert attend((5, 7)).dtype is torch.bfloat16
    assert attend((5, 7)).dtype is torch.float32


def test_dropout_drops_weights_inside_each_document() -> None:
    kept = attend((5, 7))
    dropped = attend((5, 7), dropout=0.5)
    assert dropped.shape == kept.shape
    assert not torch.equal(dropped, kept)
    torch.testing.assert_close(attend((5, 7), dropout=1e-9), kept, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="window of 6"):
        attend((5, 7), dropout=0.5, sliding_window=6)
    assert attend((5, 7), dropout=0.5, sliding_window=7).shape == kept.shape


def test_work_is_counted_for_the_partitioner() -> None:
    counter = FlopCounterMode(display=False)
    with counter:
        out, _ = packed_attention(*arguments((10, 22)))
        out.sum().backward()
    assert counter.get_total_flops() == (4 + 10) * 4 * 32**2 * 8
