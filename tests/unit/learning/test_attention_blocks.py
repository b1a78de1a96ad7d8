"""The block mask of FlexAttention: the same as torch works out from the rule, and no leak."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from pipeline.learning.attention import attend_documents, flex, packing_of
from pipeline.learning.attention.blocks import block_mask, document_starts
from pipeline.learning.attention.check import Case, make_inputs, reference

CPU = torch.device("cpu")
ROWS = [(5,), (128,), (129, 3, 400), (256, 256), (1,) * 300, (127, 1, 128, 130, 384)]


@pytest.mark.parametrize("lengths", ROWS, ids=str)
def test_blocks_are_those_of_the_rule(lengths: tuple[int, ...]) -> None:
    ours, tokens = block_mask(lengths, CPU), sum(lengths)
    number = torch.repeat_interleave(torch.tensor(lengths))

    def rule(
        batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        return (number[query] == number[key]) & (query >= key)

    theirs = create_block_mask(rule, 1, 1, tokens, tokens, device="cpu")
    for name in ("kv_num_blocks", "full_kv_num_blocks", "q_num_blocks", "full_q_num_blocks"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    assert torch.equal(ours.to_dense(), theirs.to_dense())
    rows = torch.arange(tokens)
    pairs = rows[:, None], rows[None, :]
    zero = torch.zeros((), dtype=torch.long)
    assert torch.equal(ours.mask_mod(zero, zero, *pairs), rule(zero, zero, *pairs))


def test_starts() -> None:
    assert document_starts((2, 1, 3)).tolist() == [0, 0, 2, 3, 3, 3]


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """FlexAttention as plain operators; the list grows with each call."""
    calls: list[int] = []

    def plain(*given: Any, **keywords: Any) -> Any:
        calls.append(given[0].shape[2])
        return flex.flex_attention(*given, **keywords)

    monkeypatch.setattr(flex, "_compiled", lambda: plain)
    return calls


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize("kv_heads", [1, 4])
def test_output_is_that_of_the_reference(kv_heads: int, uncompiled: list[int]) -> None:
    case = Case("mixed", (100, 1, 150, 33))
    q, k, v, grad = make_inputs(case, 4, kv_heads, 16, torch.float32, CPU)
    packing = packing_of(case.lengths, CPU, ("flex", "sdpa"))
    out, _ = attend_documents(torch.nn.Identity(), q, k, v, None, document_lengths=packing)
    wanted, *_ = reference((q, k, v), grad, case.lengths)
    torch.testing.assert_close(out.double(), wanted, atol=1e-5, rtol=1e-5)
    assert out.is_contiguous()
    assert uncompiled == [284]


def test_a_window_is_left_to_the_operator_which_sees_each_length(uncompiled: list[int]) -> None:
    packing = packing_of((9, 4), CPU, ("flex", "sdpa"))
    heads = [torch.randn(1, 2, 13, 8) for _ in range(3)]
    options = {"attention_mask": None, "document_lengths": packing}
    attend_documents(torch.nn.Identity(), *heads, sliding_window=9, **options)
    with pytest.raises(ValueError, match="window of 8"):
        attend_documents(torch.nn.Identity(), *heads, sliding_window=8, **options)
    assert uncompiled == []


def test_blocks_are_made_only_where_flex_comes_first() -> None:
    assert packing_of((128, 128), CPU, ("cudnn", "flex", "varlen")).blocks is None
    unequal = packing_of((128, 129), CPU, ("cudnn", "flex", "varlen"))
    assert unequal.blocks is not None
    assert unequal.kernels == "cudnn,varlen"
    assert packing_of((128, 129), CPU, ("varlen", "flex", "sdpa")).blocks is None


def test_outside_of_compiled_layers_it_is_compiled_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: ("compiled", function, dynamic))
    flex._compiled.cache_clear()
    assert flex._compiled() == ("compiled", flex.flex_attention, False)
    flex._compiled.cache_clear()
