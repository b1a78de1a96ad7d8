"""NEFTune: its size, when it is there, and that a resumed step sees the same."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.learning.attention import packing_of
from pipeline.learning.model import build
from pipeline.learning.noise import add_noise, amplitudes
from tests.support.packed import training_plan
from tests.support.settings import make_params

LENGTHS = (24, 16)
TOKENS = torch.arange(5, 45)[None]


class Decoder(torch.nn.Module):
    """An embedding that is called as a transformers decoder calls its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(100, 64)

    def get_input_embeddings(self) -> torch.nn.Embedding:
        return self.embedding

    def forward(self, tokens: torch.Tensor, **_: Any) -> torch.Tensor:
        vectors: torch.Tensor = self.embedding(tokens)
        return vectors


def noise_of(decoder: Decoder, lengths: Any = LENGTHS, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    noisy = decoder(TOKENS, document_lengths=lengths)
    return (noisy - decoder.embedding.weight[TOKENS]).detach()[0]


@pytest.fixture
def decoder() -> Decoder:
    torch.manual_seed(0)
    made = Decoder()
    add_noise(made, 5.0)
    return made


def test_the_noise_of_a_document_has_the_size_of_the_paper(decoder: Decoder) -> None:
    noise = noise_of(decoder)
    for part, length in zip(noise.split(LENGTHS), LENGTHS, strict=True):
        largest = 5.0 / math.sqrt(length * 64)
        assert float(part.abs().max()) <= largest * 1.001
        assert float(part.abs().max()) > 0.97 * largest
        assert float(part.std()) == pytest.approx(largest / math.sqrt(3), rel=0.1)


def test_the_seed_decides(decoder: Decoder) -> None:
    assert torch.equal(noise_of(decoder, seed=3), noise_of(decoder, seed=3))
    assert not torch.equal(noise_of(decoder, seed=3), noise_of(decoder, seed=4))


def test_the_lengths_of_a_packing_are_read(decoder: Decoder) -> None:
    packing = packing_of(LENGTHS, torch.device("cpu"))
    assert torch.equal(noise_of(decoder, packing), noise_of(decoder))


def test_none_outside_of_training(decoder: Decoder) -> None:
    decoder.eval()
    assert not noise_of(decoder).any()
    decoder.train()
    with torch.no_grad():
        assert not noise_of(decoder).any()


def test_none_at_alpha_zero() -> None:
    plain = Decoder()
    add_noise(plain, 0.0)
    assert not noise_of(plain).any()


def test_a_call_without_lengths_is_refused(decoder: Decoder) -> None:
    with pytest.raises(ValueError, match="document_lengths"):
        decoder(TOKENS)


def test_amplitudes() -> None:
    expected = torch.tensor([5 / math.sqrt(2 * 8)] * 2 + [5 / math.sqrt(8)])
    torch.testing.assert_close(amplitudes((2, 1), 8, 5.0), expected)


def test_a_model_of_transformers_is_disturbed_in_training_alone(tiny_base: Path) -> None:
    adapted = build(tiny_base, make_params().train, training_plan(), "cpu")
    decoder = adapted.causal.base_model

    def states() -> torch.Tensor:
        torch.manual_seed(0)
        found: torch.Tensor = decoder(input_ids=TOKENS, document_lengths=LENGTHS).last_hidden_state
        return found.detach()

    before = states()
    add_noise(decoder, 5.0)
    assert not torch.equal(states(), before)
    assert torch.equal(states(), states())
    adapted.causal.eval()
    assert torch.equal(states(), before)
