"""A frozen linear layer and its trainable low-rank update: y = x W.T + (x A.T) s B.T.

Called by model.py, which puts one in the place of every adapted layer; reads and writes
nothing. LoRA (arXiv 2106.09685) with s = alpha/rank, or alpha/√rank where rank-stabilised
(arXiv 2312.03732). The masters A and B are fp32 and are cast to the input's precision in
the pass itself, so that a compiled layer does it beside other work; gradients reach the
masters in fp32.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn.functional import dropout, linear


class LoraLinear(nn.Module):
    """An adapted layer.

    Args:
        frozen: the layer's stored form, with `in_features` and `out_features`.
        rank: rows of A.
        alpha: numerator of the scale.
        rslora: divide alpha by √rank instead of by rank.
        dropout: on the adapter's input, in training only.
    """

    def __init__(
        self, frozen: nn.Module, *, rank: int, alpha: float, rslora: bool, dropout: float
    ) -> None:
        super().__init__()
        self.frozen = frozen
        self.in_features = int(frozen.in_features)  # type: ignore[arg-type]
        self.out_features = int(frozen.out_features)  # type: ignore[arg-type]
        self.scale = alpha / (math.sqrt(rank) if rslora else rank)
        self.dropout = dropout
        device = next(iter([*frozen.parameters(), *frozen.buffers()])).device
        self.lora_A = nn.Parameter(torch.empty(rank, self.in_features, device=device))
        self.lora_B = nn.Parameter(torch.zeros(self.out_features, rank, device=device))

    def begin(self, generator: torch.Generator) -> None:
        """Uniform A in ±1/√in, as PEFT begins (He's bound with gain 1/√3); B stays zero."""
        bound = 1 / math.sqrt(self.in_features)
        start = torch.rand(self.lora_A.shape, generator=generator) * (2 * bound) - bound
        with torch.no_grad():
            self.lora_A.copy_(start)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in] → [..., out] in the frozen layer's output dtype."""
        y: torch.Tensor = self.frozen(x)
        seen = dropout(x, self.dropout) if self.training and self.dropout > 0 else x
        inner = linear(seen, self.lora_A.to(x.dtype)) * self.scale
        return y + linear(inner, self.lora_B.to(x.dtype))
