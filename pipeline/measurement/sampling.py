"""Choose the next token of each row: greedy, or nucleus sampling with one stream a reply.

A reply's random numbers come from its own generator, seeded by run seed, problem,
sample number and prompt variant, so that they do not depend on the batch it was
decoded in.
Choices are made in float32 whatever the model computes in.
"""

from __future__ import annotations

import hashlib

import torch

HEAD_TOKENS = 256
"""Most likely tokens that are sorted first; more only where they miss the nucleus."""

BLOCK_STEPS = 256
"""Uniform numbers drawn from a stream at a time."""


class Streams:
    """Uniform numbers in [0, 1), one independent stream a row.

    Args:
        seed: the run's sampling seed.
        names: what tells the replies apart, e.g. "problem-id/sample".
        device: where the numbers are needed; they are drawn on the CPU, so that
            all devices see the same ones.
    """

    def __init__(self, seed: int, names: list[str], device: torch.device) -> None:
        self.device = device
        self.generators = [_generator(seed, name) for name in names]
        self.block = torch.empty(len(names), 0)
        self.column = 0

    def next(self) -> torch.Tensor:
        """One number a row, float32 [rows]."""
        if self.column == self.block.shape[1]:
            drawn = [torch.rand(BLOCK_STEPS, generator=stream) for stream in self.generators]
            self.block = torch.stack(drawn).to(self.device)
            self.column = 0
        self.column += 1
        return self.block[:, self.column - 1]

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these rows alone, int64 [kept]."""
        self.generators = [self.generators[row] for row in rows.tolist()]
        self.block = self.block[rows.to(self.block.device)]


def _generator(seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def choose_tokens(
    logits: torch.Tensor, uniforms: torch.Tensor | None, temperature: float, top_p: float
) -> torch.Tensor:
    """The next token of every row.

    Args:
        logits: [rows, vocabulary], any float type.
        uniforms: float32 [rows] in [0, 1); None is allowed for greedy choice.
        temperature: 0 takes the most likely token.
        top_p: the smallest set of most likely tokens with at least this mass is kept.

    Returns:
        int64 [rows].
    """
    if temperature == 0 or uniforms is None:
        return logits.float().argmax(-1)
    probabilities = torch.softmax(logits.float() / temperature, dim=-1)
    if top_p >= 1:
        return _invert(probabilities.cumsum(-1), uniforms)
    top, ids = probabilities.topk(min(HEAD_TOKENS, probabilities.shape[-1]))
    chosen = _nucleus(top, ids, uniforms, top_p)
    wide = (top.sum(-1) < top_p).nonzero().flatten()
    if len(wide):
        top, ids = probabilities[wide].sort(dim=-1, descending=True, stable=True)
        chosen[wide] = _nucleus(top, ids, uniforms[wide], top_p)
    return chosen


def _nucleus(
    top: torch.Tensor, ids: torch.Tensor, uniforms: torch.Tensor, top_p: float
) -> torch.Tensor:
    """Sample among the first tokens whose predecessors hold less than `top_p`.

    Args:
        top: probabilities in falling order, float32 [rows, tokens].
        ids: their token ids, int64 [rows, tokens].
    """
    mass = top.cumsum(-1)
    kept = torch.where(mass - top < top_p, top, torch.zeros_like(top))
    place = _invert(kept.cumsum(-1), uniforms)
    return ids.gather(-1, place.unsqueeze(-1)).squeeze(-1)


def _invert(cumulative: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """First place whose cumulative mass exceeds the given share of the total."""
    target = (uniforms * cumulative[:, -1]).unsqueeze(-1)
    place = torch.searchsorted(cumulative, target, right=True).squeeze(-1)
    # Rounding may push the target onto the total: then the last place with mass is meant.
    last = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous()).squeeze(-1)
    return torch.minimum(place, last)
