"""Chunked loss equals the plain one, in value and gradient."""

from __future__ import annotations

import pytest
import torch

from pipeline.learning.loss import token_loss


@pytest.mark.parametrize("chunk", [1, 5, 7, 64])
def test_equals_cross_entropy_on_full_logits(chunk: int) -> None:
    generator = torch.Generator().manual_seed(chunk)
    head = torch.nn.Linear(16, 50, bias=False)
    hidden = torch.randn(21, 16, generator=generator)
    labels = torch.randint(0, 50, (21,), generator=generator)
    plain, chunked = hidden.clone().requires_grad_(), hidden.clone().requires_grad_()

    expected = torch.nn.functional.cross_entropy(head(plain), labels, reduction="sum")
    expected.backward()
    summed, hits = token_loss(head, chunked, labels, chunk)
    summed.backward()

    torch.testing.assert_close(summed, expected)
    torch.testing.assert_close(chunked.grad, plain.grad)
    assert int(hits) == int((head(hidden).argmax(-1) == labels).sum())


def test_without_gradients_the_value_is_the_same() -> None:
    head = torch.nn.Linear(8, 9)
    hidden, labels = torch.randn(4, 8), torch.tensor([1, 2, 3, 4])
    with torch.no_grad():
        quiet, _ = token_loss(head, hidden, labels, 3)
    loud, _ = token_loss(head, hidden, labels, 3)
    torch.testing.assert_close(quiet, loud.detach())
