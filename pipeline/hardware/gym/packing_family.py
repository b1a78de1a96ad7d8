"""The family about tokens and hours: packing against the time of a token.

Listed in `tasks.FAMILIES`; its gold is computed with `formulas`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from random import Random
from typing import Self

from pipeline.hardware.gym import formulas as f
from pipeline.hardware.gym.cases import (
    CLOSE,
    CONFIG,
    LOG,
    LOOSE,
    PROFILE,
    Case,
    Gold,
    answer,
)


@dataclass(frozen=True)
class PackingTime(Case):
    """Packing against the time of a token and the hours that there are."""

    FAMILY = "packing_time"
    INTERACTION = "packing × token time × epochs × effective batch"
    COMPUTATIONS = (
        "operations a token", "tokens per second", "tokens of an epoch", "hours of an epoch",
        "packing", "epochs", "examples a sequence", "accumulation",
    )  # fmt: skip
    QUANTITIES = {
        "tokens_per_second": LOOSE, "epoch_tokens_million": CLOSE, "epoch_hours": LOOSE,
        "fixed_epoch_hours": LOOSE,
    }  # fmt: skip
    MEANINGS = {
        "tokens_per_second": "all gpus, padding included, given config",
        "epoch_tokens_million": "tokens of an epoch, padding included, given config, 10^6",
        "epoch_hours": "an epoch, given config, hours",
        "fixed_epoch_hours": "an epoch with the fix, hours",
    }
    RULES = (
        "A token takes 6·N + 12·layers·hidden·T operations, N = params_billion × 10^9. T is the"
        " length attended to: max_seq_len without packing (padding is computed),"
        " mean_example_tokens with packing.",
        "All gpus together do gpus × peak_tflops × 10^12 × mfu operations a second.",
        "An epoch has examples × max_seq_len tokens without packing, examples ×"
        " mean_example_tokens / fill with packing.",
        "The epochs must end within budget_hours - reserved_hours. If they do not and packing is"
        " false, it becomes true (padding_not_packed). If they still do not, epochs becomes the"
        " largest whole number that does (epochs_over_budget).",
        "A packed sequence holds fill × max_seq_len / mean_example_tokens examples, another one"
        " holds 1. Last, gradient_accumulation_steps becomes target_examples / (micro_batch ×"
        " gpus × examples of a sequence), rounded to the nearest whole number, at least 1."
        " batch_off_target if the given config has another value than this rule gives with the"
        " given packing.",
    )
    FIXABLE = (
        "packing", "epochs", "gradient_accumulation_steps", "max_seq_len", "learning_rate",
        "micro_batch",
    )  # fmt: skip
    QUIET = (
        "stopped by the clock before the last epoch",
        "loader: queue empty for 0.2 s",
        "WARNING NCCL watchdog: slow collective",
    )

    params_billion: float = field(metadata=CONFIG)
    layers: int = field(metadata=CONFIG)
    hidden: int = field(metadata=CONFIG)
    gpus: int = field(metadata=CONFIG)
    max_seq_len: int = field(metadata=CONFIG)
    packing: bool = field(metadata=CONFIG)
    epochs: int = field(metadata=CONFIG)
    micro_batch: int = field(metadata=CONFIG)
    gradient_accumulation_steps: int = field(metadata=CONFIG)
    target_examples: int = field(metadata=CONFIG)
    budget_hours: float = field(metadata=CONFIG)
    peak_tflops: float = field(metadata=PROFILE)
    mfu: float = field(metadata=PROFILE)
    fill: float = field(metadata=PROFILE)
    mean_example_tokens: int = field(metadata=LOG)
    examples: int = field(metadata=LOG)
    reserved_hours: float = field(metadata=LOG)

    @classmethod
    def draw(cls, rng: Random) -> Self:
        params, layers, hidden = rng.choice(
            ((0.6, 28, 1024), (1.7, 28, 2048), (4.02, 36, 2560), (8.19, 36, 4096))
        )
        length = rng.choice((4096, 8192, 16384, 32768))
        gpus, packing = rng.choice((1, 2, 4, 8)), rng.random() < 0.5
        mean, fill = int(length * rng.uniform(0.08, 0.45)), round(rng.uniform(0.86, 0.99), 3)
        case = cls(
            params, layers, hidden, gpus, length, packing, rng.randint(2, 9),
            rng.choice((1, 2)), 1, gpus * rng.choice((16, 32, 64, 96)),
            float(rng.choice((4, 8, 12, 24))), rng.choice((65.0, 312.0, 989.0)),
            round(rng.uniform(0.25, 0.48), 3), fill, mean, rng.randint(2000, 60000),
            round(rng.uniform(0.3, 2.5), 2),
        )  # fmt: skip
        # A common fault: the accumulation of the other packing.
        right = rng.random() < 0.35
        return replace(
            case, gradient_accumulation_steps=case.accumulation(packing=packing == right)
        )

    def naive(self) -> Self:
        return replace(self, fill=1.0, reserved_hours=0.0)

    def accumulation(self, *, packing: bool) -> int:
        """Micro-batches of a step."""
        held = self.fill * self.max_seq_len / self.mean_example_tokens if packing else 1.0
        return max(
            1, math.floor(self.target_examples / (self.micro_batch * self.gpus * held) + 0.5)
        )

    def rate(self, *, packing: bool) -> float:
        """Tokens per second of all gpus, padding included."""
        attended = self.mean_example_tokens if packing else self.max_seq_len
        each = f.training_flops_per_token(
            self.params_billion * 1e9, self.layers, self.hidden, attended
        )
        return self.gpus * self.peak_tflops * 1e12 * self.mfu / each

    def tokens(self, *, packing: bool) -> float:
        """Tokens of an epoch, padding included."""
        each = self.mean_example_tokens / self.fill if packing else self.max_seq_len
        return self.examples * each

    def hours(self, *, packing: bool) -> float:
        """An epoch, hours."""
        return self.tokens(packing=packing) / self.rate(packing=packing) / 3600

    def gold(self) -> Gold | None:
        limit = self.budget_hours - self.reserved_hours
        late = self.epochs * self.hours(packing=self.packing) > limit
        packing = self.packing or late
        epochs = min(self.epochs, int(limit / self.hours(packing=packing)))
        if epochs < 1:
            return None
        given = self.gradient_accumulation_steps
        return answer(
            {
                "padding_not_packed": packing != self.packing,
                "epochs_over_budget": epochs != self.epochs,
                "batch_off_target": given != self.accumulation(packing=self.packing),
            },
            {
                "tokens_per_second": self.rate(packing=self.packing),
                "epoch_tokens_million": self.tokens(packing=self.packing) / 1e6,
                "epoch_hours": self.hours(packing=self.packing),
                "fixed_epoch_hours": self.hours(packing=packing),
            },
            {
                "packing": packing, "epochs": epochs,
                "gradient_accumulation_steps": self.accumulation(packing=packing),
            },
            self,
        )  # fmt: skip
