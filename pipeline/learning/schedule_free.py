"""Schedule-free AdamW: a running average of the iterates in place of a falling rate.

A. Defazio and others, "The road less scheduled", arXiv 2405.15682, algorithm 1. Three
points a tensor: z takes AdamW's steps, x averages z and is what a reader of the
adapter gets, y lies between them and is where gradients are taken. The parameter
itself is y. Used by optimizers.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch


class ScheduleFreeAdamW(torch.optim.Optimizer):
    """AdamW's second moment and decoupled decay on z; the first moment is the average.

    Args:
        params: groups, each with its `lr_scale`; `lr` is the rate times that.
        betas: share of x in y (the paper's β1), and decay of the second moment.
        weight_decay: decoupled, taken at y.

    Attributes:
        steps: updates made.
        weight: sum of the squared rates so far; a step enters x with its share of it.
    """

    def __init__(
        self, params: Any, lr: float, betas: tuple[float, float], weight_decay: float
    ) -> None:
        defaults = {"lr": lr, "weight_decay": weight_decay, "eps": 1e-8, "lr_scale": 1.0}
        super().__init__(params, defaults)
        self.betas = betas
        self.steps = 0
        self.weight = 0.0

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every tensor that has a gradient; `closure` is not used."""
        self.steps += 1
        first = self.param_groups[0]
        squared = (first["lr"] / first["lr_scale"]) ** 2
        self.weight += squared
        share = squared / self.weight if self.weight > 0 else 0.0
        for group in self.param_groups:
            chosen = [p for p in group["params"] if p.grad is not None]
            if chosen:
                self._update(chosen, group, share)

    def start(self, parameter: torch.nn.Parameter) -> dict[str, torch.Tensor]:
        """State of a tensor before its first update: all three points are the same."""
        state: dict[str, torch.Tensor] = self.state[parameter]
        if not state:
            state["z"] = parameter.detach().clone()
            state["x"] = parameter.detach().clone()
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state

    def _update(
        self, chosen: list[torch.nn.Parameter], group: dict[str, Any], share: float
    ) -> None:
        states = [self.start(parameter) for parameter in chosen]
        z, x = [s["z"] for s in states], [s["x"] for s in states]
        squares = [s["exp_avg_sq"] for s in states]
        gradients: list[Any] = [parameter.grad for parameter in chosen]
        keep, rate = self.betas[1], group["lr"]
        torch._foreach_mul_(squares, keep)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - keep)
        size = torch._foreach_sqrt(squares)
        torch._foreach_div_(size, math.sqrt(1 - keep**self.steps))
        torch._foreach_add_(size, group["eps"])
        if group["weight_decay"]:
            torch._foreach_add_(
                z, [p.detach() for p in chosen], alpha=-rate * group["weight_decay"]
            )
        torch._foreach_addcdiv_(z, gradients, size, -rate)
        torch._foreach_lerp_(x, z, share)
        self.place(chosen)

    @torch.no_grad()
    def place(self, chosen: list[torch.nn.Parameter]) -> None:
        """Set parameters to y = (1 - β1)·z + β1·x, the same bits after a resume."""
        for parameter in chosen:
            state = self.state[parameter]
            torch.lerp(state["z"], state["x"], self.betas[0], out=parameter.data)
