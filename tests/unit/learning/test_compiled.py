"""Recomputed, offloaded and compiled layers give the loss and gradients of plain ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.learning.attention import packing_of
from pipeline.learning.compiled import compile_layers, decoder_layers, recomputed_layers
from pipeline.learning.data import Batch, PackedData, padded
from pipeline.learning.loss import DocumentLoss
from pipeline.learning.model import Adapted, build
from pipeline.learning.offload import HostEmbedding
from tests.support.packed import training_plan, write_packed
from tests.support.settings import make_params


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    data = PackedData(write_packed(tmp_path / "data"))
    return data.batch(torch.arange(2).numpy())


def built(base: Path, dropout: float = 0.0, **plan: Any) -> Adapted:
    params = make_params(**{"train.dropout": dropout}).train
    adapted = build(base, params, training_plan(**plan), "cpu")
    with torch.no_grad():
        for number, master in enumerate(adapted.masters.values()):
            generator = torch.Generator().manual_seed(number)
            master.add_(torch.randn(master.shape, generator=generator) * 0.05)
    return adapted


def figures(adapted: Adapted, batch: Batch) -> tuple[float, dict[str, torch.Tensor]]:
    loss = DocumentLoss(adapted.causal, 32)
    torch.manual_seed(5)
    tokens, positions, targets = (
        torch.from_numpy(x) for x in (batch.tokens, batch.positions, batch.targets)
    )
    summed, _ = loss(tokens, positions, targets, packing_of(batch.lengths, tokens.device))
    summed.backward()
    gradients = {}
    for name, master in adapted.masters.items():
        assert master.grad is not None
        gradients[name] = master.grad
    return float(summed.detach()), gradients


def same(one: tuple[float, Any], other: tuple[float, Any], tolerance: float = 0.0) -> None:
    assert one[0] == pytest.approx(other[0], rel=max(tolerance, 1e-12))
    for name, gradient in one[1].items():
        torch.testing.assert_close(gradient, other[1][name], atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize(
    "plan",
    [
        {"gradient_checkpointing": True},
        {"gradient_checkpointing": True, "recomputed_layers": 1},
        {"gradient_checkpointing": True, "offload": True},
    ],
    ids=["all", "one", "offload"],
)
def test_recomputation_changes_no_bit(
    tiny_base: Path, batch: Batch, plan: dict[str, Any], dropout: float
) -> None:
    plain = figures(built(tiny_base, dropout), batch)
    same(figures(built(tiny_base, dropout, **plan), batch), plain)


def test_only_the_first_layers_are_recomputed(tiny_base: Path) -> None:
    """Later layers give up what they kept before the turn of the first ones comes."""
    adapted = built(tiny_base, gradient_checkpointing=True, recomputed_layers=1)
    again = [layer.gradient_checkpointing for layer in decoder_layers(adapted.causal)]
    assert again == [True] + [False] * (len(again) - 1)
    assert len(again) > 1


def test_a_second_pass_with_offload_is_right_too(tiny_base: Path, batch: Batch) -> None:
    plain = built(tiny_base)
    away = built(tiny_base, gradient_checkpointing=True, offload=True)
    for _ in range(2):
        same(figures(away, batch), figures(plain, batch))


def test_compiled_layers_agree_with_plain_ones(tiny_base: Path, batch: Batch) -> None:
    torch._dynamo.reset()
    plain = figures(built(tiny_base), batch)
    whole = built(tiny_base)
    compile_layers(decoder_layers(whole.causal), "aot_eager_decomp_partition")
    same(figures(whole, batch), plain, 1e-5)


def test_one_compilation_serves_all_layers_and_all_cuts_of_a_row(
    tiny_base: Path, batch: Batch
) -> None:
    torch._dynamo.reset()
    whole = built(tiny_base)
    compile_layers(decoder_layers(whole.causal), "aot_eager_decomp_partition")
    start = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    figures(whole, batch)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    half = len(batch.tokens) // 2
    lengths = (half, len(batch.tokens) - half)
    positions = torch.cat([torch.arange(n) for n in lengths]).numpy()
    other = Batch(batch.tokens, positions, batch.targets[batch.targets != half], lengths)
    figures(whole, other)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before
    # The first layer's input takes no gradient, so it has code of its own.
    assert before - start <= 2


def test_padding_changes_neither_loss_nor_gradients(tiny_base: Path, batch: Batch) -> None:
    plain = figures(built(tiny_base), batch)
    for missing in (5, 200):
        longer = padded(batch, len(batch.tokens) + missing)
        assert sum(longer.lengths) == len(longer.tokens) == len(batch.tokens) + missing
        same(figures(built(tiny_base), longer), plain, 1e-5)
    assert padded(batch, len(batch.tokens)) is batch
    assert len(padded(batch, len(batch.tokens) + 5).lengths) == len(batch.lengths)
    assert len(padded(batch, len(batch.tokens) + 200).lengths) == len(batch.lengths) + 1


def test_how_many_layers_are_recomputed() -> None:
    assert recomputed_layers({"gradient_checkpointing": False}, 40) == 0
    assert recomputed_layers({"gradient_checkpointing": True}, 40) == 40
    assert recomputed_layers({"gradient_checkpointing": True, "recomputed_layers": 10}, 40) == 10


def test_an_embedding_on_the_host_gives_the_same_rows() -> None:
    source = torch.nn.Embedding(11, 4)
    tokens = torch.tensor([[3, 0, 10]])
    away = HostEmbedding(source, torch.device("cpu"))
    assert torch.equal(away(tokens), source(tokens))
    assert not list(away.parameters())
