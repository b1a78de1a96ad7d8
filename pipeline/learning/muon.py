"""Muon: steps along the orthogonal part of the momentum, for matrices.

K. Jordan and others, "Muon: an optimizer for hidden layers in neural networks", 2024
(kellerjordan.github.io/posts/muon). The factor 0.2·√max(rows, columns) gives updates
the size that AdamW's have, so that a learning rate serves both (arXiv 2502.16982,
section 2.2). Used by optimizers.py; older releases of torch have no Muon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic whose slope at zero is steep: five rounds bring singular values near 1."""
ROUNDS = 5
SMALLEST_NORM = 1e-7


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """U·Vᵀ of every matrix U·S·Vᵀ, roughly: singular values end between 0.5 and 1.5.

    Args:
        matrices: float [k, rows, columns]; a matrix of zeros stays one.

    Returns:
        The same shape and type. Computed in bfloat16 on a GPU, as published, and in
        float32 elsewhere, where bfloat16 is often emulated.
    """
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if tall else matrices
    x = x.to(torch.bfloat16 if matrices.is_cuda else torch.float32)
    # The Frobenius norm bounds the largest singular value, which must not exceed 1.
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=SMALLEST_NORM)
    first, third, fifth = COEFFICIENTS
    for _ in range(ROUNDS):
        square = x @ x.transpose(1, 2)
        x = first * x + (third * square + fifth * (square @ square)) @ x
    found: torch.Tensor = (x.transpose(1, 2) if tall else x).to(matrices.dtype)
    return found


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised; matrices of one shape are computed together.

    Args:
        params: groups of matrices [rows, columns].
        lr: as for AdamW.
        weight_decay: decoupled.
    """

    def __init__(self, params: Any, lr: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient; `closure` is not used."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[torch.nn.Parameter]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(parameter.shape, []).append(parameter)
            for alike in by_shape.values():
                self._update(alike, group["lr"], group["weight_decay"])

    def _update(self, alike: list[torch.nn.Parameter], rate: float, decay: float) -> None:
        wanted = []
        for parameter in alike:
            gradient: Any = parameter.grad
            state = self.state[parameter]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(parameter)
            state["momentum"].lerp_(gradient, 1 - MOMENTUM)
            wanted.append(torch.lerp(gradient, state["momentum"], MOMENTUM))
        size = 0.2 * math.sqrt(max(alike[0].shape))
        for parameter, update in zip(alike, orthogonal(torch.stack(wanted)), strict=True):
            parameter.mul_(1 - rate * decay).add_(update, alpha=-rate * size)
