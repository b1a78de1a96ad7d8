"""NEFTune: uniform noise on the embeddings while a model learns.

N. Jain and others, "NEFTune: noisy embeddings improve instruction finetuning",
arXiv 2310.05914. The noise of a document depends on its own length, so that packing
does not change its size. It is drawn from the generator that the step seeds for
every micro-batch (dropout draws from it too), so that a resumed run sees the same.
`worker.py` calls `add_noise` once.
"""

from __future__ import annotations

import math
from typing import Any

import torch


def amplitudes(lengths: tuple[int, ...], width: int, alpha: float) -> torch.Tensor:
    """Largest noise of every place: alpha/√(tokens of its document · width), fp32 [T]."""
    sizes = torch.tensor([alpha / math.sqrt(one * width) for one in lengths])
    return sizes.repeat_interleave(torch.tensor(lengths))


class EmbeddingNoise:
    """Hooks on a decoder (which is told the lengths) and on its embedding.

    Args:
        alpha: the paper's α; it uses 5, 10 and 15.
    """

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.lengths: tuple[int, ...] | None = None

    def note_lengths(
        self, _: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        """Before the decoder: remember `document_lengths`, a tuple or a `PackedLengths`."""
        packing = named.get("document_lengths")
        self.lengths = getattr(packing, "lengths", packing)

    def disturb(
        self, embedding: torch.nn.Module, _: tuple[Any, ...], vectors: torch.Tensor
    ) -> torch.Tensor | None:
        """After the embedding: add noise to [1, T, width] in training, else nothing.

        Raises:
            ValueError: the decoder was not told the lengths.
        """
        if not (embedding.training and torch.is_grad_enabled()):
            return None
        if self.lengths is None:
            raise ValueError("noise needs document_lengths")
        largest = amplitudes(self.lengths, vectors.shape[-1], self.alpha)
        noise = torch.empty_like(vectors, dtype=torch.float32).uniform_(-1, 1)
        noise *= largest.to(vectors.device)[None, :, None]
        return vectors + noise.to(vectors.dtype)


def add_noise(decoder: Any, alpha: float) -> None:
    """Let a decoder see noisy embeddings in training; 0 adds nothing.

    Args:
        decoder: the transformer under the head, called with `document_lengths`.
    """
    if alpha > 0:
        noise = EmbeddingNoise(alpha)
        decoder.register_forward_pre_hook(noise.note_lengths, with_kwargs=True)
        decoder.get_input_embeddings().register_forward_hook(noise.disturb)
