"""Documents of one pack are strangers to each other; alone or packed, the numbers agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.base.loading import load_base
from pipeline.learning.attention import DOCUMENTS, attend_documents, register

LENGTHS = (17, 30, 9)


def load(base: Path, attention: str) -> Any:
    register()
    return load_base(base, dtype="float32", device="cpu", attention=attention)


def packed_inputs(tokens: torch.Tensor, lengths: tuple[int, ...]) -> dict[str, Any]:
    positions = torch.cat([torch.arange(n) for n in lengths])
    return {
        "input_ids": tokens[None],
        "position_ids": positions[None],
        "use_cache": False,
        "document_lengths": lengths,
    }


def random_tokens(seed: int = 0) -> torch.Tensor:
    return torch.randint(3, 400, (sum(LENGTHS),), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_a_changed_token_moves_no_other_document(any_base: Path, changed: int) -> None:
    model = load(any_base, DOCUMENTS)
    tokens = random_tokens()
    other = tokens.clone()
    start = sum(LENGTHS[:changed])
    other[start] = (other[start] + 1) % 400
    with torch.no_grad():
        before = model(**packed_inputs(tokens, LENGTHS)).logits[0].split(LENGTHS)
        after = model(**packed_inputs(other, LENGTHS)).logits[0].split(LENGTHS)
    for document, (a, b) in enumerate(zip(before, after, strict=True)):
        moved = float((a - b).abs().max())
        assert (moved > 1e-3) if document == changed else (moved < 1e-5)


def test_packed_logits_equal_each_document_run_alone_by_the_eager_reference(any_base: Path) -> None:
    model, reference = load(any_base, DOCUMENTS), load(any_base, "eager")
    tokens = random_tokens(1)
    with torch.no_grad():
        packed = model(**packed_inputs(tokens, LENGTHS)).logits[0].split(LENGTHS)
        for logits, document in zip(packed, tokens.split(LENGTHS), strict=True):
            alone = reference(input_ids=document[None], use_cache=False).logits[0]
            torch.testing.assert_close(logits, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("recompute", [False, True])
def test_packed_gradients_equal_the_sum_of_documents_alone(any_base: Path, recompute: bool) -> None:
    tokens = random_tokens(2)

    def gradient(pieces: list[tuple[torch.Tensor, tuple[int, ...]]]) -> torch.Tensor:
        model = load(any_base, DOCUMENTS).train()
        if recompute:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        weight = model.model.layers[0].self_attn.q_proj.weight.requires_grad_()
        for piece, lengths in pieces:
            model(**packed_inputs(piece, lengths)).logits.square().sum().backward()
        return weight.grad

    packed = gradient([(tokens, LENGTHS)])
    alone = gradient([(d, (len(d),)) for d in tokens.split(LENGTHS)])
    torch.testing.assert_close(packed, alone, atol=1e-3, rtol=1e-5)
    assert float(packed.abs().max()) > 0


def call(**changes: Any) -> Any:
    heads = torch.zeros(1, 2, 8, 4)
    arguments: dict[str, Any] = {"attention_mask": None, "document_lengths": (3, 5), **changes}
    return attend_documents(torch.nn.Identity(), heads, heads, heads, **arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"document_lengths": None}, "document_lengths"),
        ({"attention_mask": torch.ones(1, 8)}, "no mask"),
        ({"document_lengths": (3, 4)}, "sum to 7"),
        ({"sliding_window": 4}, "window of 4"),
    ],
)
def test_a_call_that_could_leak_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(**changes)


def test_output_has_the_layout_that_transformers_expects() -> None:
    output, weights = call()
    assert output.shape == (1, 8, 2, 4)
    assert weights is None
