"""Which triplets AdaLoRA keeps: importance, budget and masks, exact over a resume.

Q. Zhang and others, arXiv 2303.10512. PEFT's layers compute the update; its own
allocator is not used, because it counts steps of a fixed total, which the clock may
change, and its state cannot be saved. Here the budget is a function of the run's
progress, and everything that is remembered goes through safetensors. Used by
optimizers.py; single tensors are never sharded here.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from pipeline.base.adapter_format import ADALORA_BETAS, ORTHOGONALITY, target_rank

WARM, LAST = 0.1, 0.3
"""Share of the run before triplets are masked, and share after the last choice
(judgement, within the ranges of the paper's table 7)."""

SENSITIVITY, UNCERTAINTY, KEPT = "sensitivity", "uncertainty", "kept"


def kept_triplets(progress: float, all_of_them: int, goal: int) -> int:
    """How many triplets keep their value: a cubic from all of them to the goal.

    Args:
        progress: share of the run that is done, in [0, 1].

    Source: arXiv 2303.10512, equation 12.
    """
    if progress <= WARM:
        return all_of_them
    if progress >= 1 - LAST:
        return goal
    left = 1 - (progress - WARM) / (1 - LAST - WARM)
    return int(goal + (all_of_them - goal) * left**3)


class Allocator:
    """Scores and masks of all modules; called around every optimizer step.

    Args:
        named: tensor name in the adapter file → master.
    """

    def __init__(self, named: Mapping[str, torch.nn.Parameter]) -> None:
        self.named = dict(named)
        self.modules = sorted(
            name.removesuffix(".lora_E") for name in named if name.endswith(".lora_E")
        )
        ranks = [named[f"{module}.lora_E"].shape[0] for module in self.modules]
        self.triplets, self.goal = sum(ranks), sum(map(target_rank, ranks))
        self.memory: dict[str, torch.Tensor] = {}
        """`name.sensitivity` and `name.uncertainty`, until the choice is final."""
        self.kept: dict[str, torch.Tensor] = {}
        """Module → bool [rank], once the choice is final."""

    @torch.no_grad()
    def add_gradients(self) -> None:
        """Gradient of the regulariser that keeps A and B near orthogonal.

        The mean over all matrices of ‖A·Aᵀ − 1‖ and ‖Bᵀ·B − 1‖ (Frobenius), times its
        weight, as in the paper's code and in PEFT; the reported loss is without it.
        """
        for module in self.modules:
            for side in ("A", "B"):
                parameter = self.named[f"{module}.lora_{side}"]
                if parameter.grad is None:
                    continue
                wide = parameter if side == "A" else parameter.t()
                off = wide @ wide.t()
                off.diagonal().sub_(1)
                # The slope of the norm has a factor of 2, the mean counts A and B.
                size = ORTHOGONALITY / len(self.modules)
                slope = off @ wide * (size / off.norm().clamp(min=1e-12))
                parameter.grad.add_(slope if side == "A" else slope.t())

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        """Remember how much each weight matters, and mask what the budget leaves out."""
        if not self.kept:
            self._remember()
            budget = kept_triplets(progress, self.triplets, self.goal)
            if budget == self.triplets and progress < 1 - LAST:
                return
            chosen = self._choose(budget)
            if progress >= 1 - LAST:
                self.kept, self.memory = chosen, {}
        else:
            chosen = self.kept
        for module, mask in chosen.items():
            self.named[f"{module}.lora_E"].masked_fill_(~mask[:, None], 0.0)

    def _remember(self) -> None:
        """Smoothed |weight · gradient| and its smoothed deviation (equations 9 to 11)."""
        first, second = ADALORA_BETAS
        for name, parameter in self.named.items():
            if parameter.grad is None:
                continue
            now = (parameter * parameter.grad).abs()
            mean = self._memory(name, SENSITIVITY).mul_(first).add_(now, alpha=1 - first)
            deviation = (now - mean).abs()
            self._memory(name, UNCERTAINTY).mul_(second).add_(deviation, alpha=1 - second)

    def _memory(self, name: str, kind: str) -> torch.Tensor:
        key = f"{name}.{kind}"
        if key not in self.memory:
            self.memory[key] = torch.zeros_like(self.named[name])
        return self.memory[key]

    def _score(self, name: str) -> torch.Tensor:
        return self._memory(name, SENSITIVITY) * self._memory(name, UNCERTAINTY)

    def _choose(self, budget: int) -> dict[str, torch.Tensor]:
        """Module → mask of the triplets among the best of the whole model."""
        scores = {
            module: self._score(f"{module}.lora_E").flatten()
            + self._score(f"{module}.lora_A").mean(1)
            + self._score(f"{module}.lora_B").mean(0)
            for module in self.modules
        }
        joined = torch.cat(list(scores.values()))
        best = torch.zeros_like(joined, dtype=torch.bool)
        best[joined.argsort(descending=True, stable=True)[:budget]] = True
        parts = best.split([score.numel() for score in scores.values()])
        return dict(zip(scores, parts, strict=True))

    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint must hold."""
        masks = {f"{module}.{KEPT}": mask for module, mask in self.kept.items()}
        return {**self.memory, **masks}

    def load(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take back what `tensors` gave, on the devices of the parameters."""
        self.memory, self.kept = {}, {}
        for key, value in tensors.items():
            name, _, kind = key.rpartition(".")
            if kind in (SENSITIVITY, UNCERTAINTY):
                self.memory[key] = value.to(self.named[name].device)
            elif kind == KEPT:
                self.kept[name] = value.to(self.named[f"{name}.lora_E"].device)
