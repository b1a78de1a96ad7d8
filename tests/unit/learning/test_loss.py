"""Chunked loss equals the plain one, in value and gradient."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from pipeline.learning.loss import chunk_loss, token_loss


@pytest.mark.parametrize("chunk", [1, 5, 7, 64])
def test_equals_cross_entropy_on_full_logits(chunk: int) -> None:
    generator = torch.Generator().manual_seed(chunk)
    head = torch.nn.Linear(16, 50, bias=False)
    hidden = torch.randn(21, 16, generator=generator)
    labels = torch.randint(0, 50, (21,), generator=generator)
    plain, chunked = hidden.clone().requires_grad_(), hidden.clone().requires_grad_()

    expected = torch.nn.functional.cross_entropy(head(plain), labels, reduction="sum")
    expected.backward()
    summed, hits = token_loss(head.weight, chunked, labels, chunk)
    summed.backward()

    torch.testing.assert_close(summed, expected)
    torch.testing.assert_close(chunked.grad, plain.grad)
    assert int(hits) == int((head(hidden).argmax(-1) == labels).sum())


def test_without_gradients_the_value_is_the_same() -> None:
    head = torch.nn.Linear(8, 9, bias=False)
    hidden, labels = torch.randn(4, 8), torch.tensor([1, 2, 3, 4])
    with torch.no_grad():
        quiet, _ = token_loss(head.weight, hidden, labels, 3)
    loud, _ = token_loss(head.weight, hidden, labels, 3)
    torch.testing.assert_close(quiet, loud.detach())


@pytest.mark.parametrize("chunk", [4, 21])
def test_label_smoothing_equals_torchs_own(chunk: int) -> None:
    weight, labels = torch.randn(50, 16, dtype=torch.float64), torch.randint(0, 50, (21,))
    plain = torch.randn(21, 16, dtype=torch.float64, requires_grad=True)
    chunked = plain.detach().clone().requires_grad_()
    cross_entropy(plain @ weight.t(), labels, reduction="sum", label_smoothing=0.1).backward()
    token_loss(weight, chunked, labels, chunk, smoothing=0.1)[0].backward()
    # The arithmetic of a chunk is fp32 whatever comes in.
    torch.testing.assert_close(chunked.grad, plain.grad, atol=1e-5, rtol=1e-5)


def test_the_filling_of_the_last_chunk_changes_nothing() -> None:
    weight, hidden = torch.randn(50, 16), torch.randn(5, 16)
    labels = torch.randint(0, 50, (5,))
    assert torch.equal(
        torch.stack(token_loss(weight, hidden, labels, 64)),
        torch.stack(token_loss(weight, hidden, labels, 5)),
    )


def test_the_arithmetic_that_is_compiled_gives_the_same() -> None:
    logits, labels = torch.randn(6, 30), torch.tensor([3, -1, 29, 0, 7, 7])
    whole = torch.compile(chunk_loss, backend="aot_eager", dynamic=False)
    for mine, theirs in zip(whole(logits, labels, 0.1, 3.0), chunk_loss(logits, labels, 0.1, 3.0)):
        torch.testing.assert_close(mine, theirs)


def test_small_gradients_survive_half_precision() -> None:
    """A token known with p = 0.9999 has gradients that fp16 rounds to zero as they are."""
    weight = torch.eye(4, 8).half() * 0.02
    hidden = torch.zeros(3, 8).half()
    hidden[:, 0] = 480.0
    hidden.requires_grad_()
    summed, _ = token_loss(weight, hidden, torch.zeros(3, dtype=torch.int64), 2)
    (summed * 2.0**15).backward()
    exact = hidden.detach().float().requires_grad_()
    (
        cross_entropy(
            exact @ weight.float().t(), torch.zeros(3, dtype=torch.int64), reduction="sum"
        )
        * 2.0**15
    ).backward()
    torch.testing.assert_close(hidden.grad.float(), exact.grad, rtol=0.01, atol=1e-3)
