"""Families about the learning rate: length of the schedule, warm-up, pace of the scheduler.

Listed in `tasks.FAMILIES`; each computes its gold with `formulas`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Self

from pipeline.hardware.gym import formulas as f
from pipeline.hardware.gym.cases import (
    CLOSE,
    CONFIG,
    EXACT,
    LOG,
    LOOSE,
    PROFILE,
    Case,
    Gold,
    Value,
    answer,
)


@dataclass(frozen=True)
class Schedule(Case):
    """Accumulation against the length of the learning-rate schedule."""

    FAMILY = "accumulation_schedule"
    INTERACTION = "accumulation × schedule length × learning rate"
    COMPUTATIONS = (
        "effective batch", "steps of an epoch", "all steps", "what the schedule counted",
        "learning rate of the batch", "rate at the last step",
    )  # fmt: skip
    QUANTITIES = {
        "effective_batch": EXACT, "steps_per_epoch": EXACT, "total_steps": EXACT,
        "half_way_rate": CLOSE,
    }  # fmt: skip
    MEANINGS = {
        "effective_batch": "examples an optimizer step",
        "steps_per_epoch": "optimizer steps",
        "total_steps": "optimizer steps of all epochs",
        "half_way_rate": "learning rate at optimizer step total_steps / 2, given config",
    }
    RULES = (
        "Effective batch B = micro_batch × gradient_accumulation_steps × gpus. An epoch has"
        " ceil(examples / B) optimizer steps, its last one may be smaller.",
        "The scheduler advances once an optimizer step: up from 0 to learning_rate over"
        " warmup_steps, then down to 0 at schedule_steps, both linear; 0 after that.",
        "schedule_steps must be the number of optimizer steps of all epochs. If it is that times"
        " gradient_accumulation_steps it counts micro-batches (schedule_counts_micro_steps), times"
        " gpus it ignores the ranks (schedule_ignores_ranks), and the steps of one epoch are"
        " schedule_ignores_epochs.",
        "learning_rate must be reference_rate × sqrt(B / reference_batch), within 1 %"
        " (learning_rate_off_scale); give the fixed one to 4 digits.",
        "warmup_steps must be ceil(warmup_share × total steps). If it is that times"
        " gradient_accumulation_steps, it counts micro-batches (warmup_counts_micro_steps).",
    )
    FIXABLE = (
        "schedule_steps", "learning_rate", "warmup_steps", "gradient_accumulation_steps", "epochs",
        "micro_batch",
    )  # fmt: skip
    QUIET = (
        "loss flat over the last epoch", "WARNING learning rate 0.0 for many steps",
        "loss spikes, grad_norm above the clip", "loss is nan at one micro-batch, skipped",
    )  # fmt: skip

    micro_batch: int = field(metadata=CONFIG)
    gradient_accumulation_steps: int = field(metadata=CONFIG)
    epochs: int = field(metadata=CONFIG)
    learning_rate: float = field(metadata=CONFIG)
    reference_rate: float = field(metadata=CONFIG)
    reference_batch: int = field(metadata=CONFIG)
    schedule_steps: int = field(metadata=CONFIG)
    warmup_steps: int = field(metadata=CONFIG)
    warmup_share: float = field(metadata=CONFIG)
    gpus: int = field(metadata=PROFILE)
    examples: int = field(metadata=LOG)

    @classmethod
    def draw(cls, rng: Random) -> Self:
        gpus, micro, accumulation = (
            rng.choice((2, 4, 8)),
            rng.choice((1, 2, 4)),
            rng.choice((3, 5, 6, 16)),
        )
        case = cls(
            micro, accumulation, rng.choice((3, 4, 6)), 1e-4, rng.choice((1e-4, 2e-4, 3e-4)),
            rng.choice((16, 32, 64)), 1, 1, rng.choice((0.03, 0.05, 0.1)), gpus,
            rng.randint(6000, 90000),
        )  # fmt: skip
        total, warmup = case.total(), case.warmup()
        wrong = (total * accumulation, total * gpus, total // case.epochs, total)
        micro_warmup = rng.random() < 0.5
        return replace(
            case,
            schedule_steps=rng.choice(wrong),
            learning_rate=case.reference_rate if rng.random() < 0.6 else case.scaled(),
            warmup_steps=warmup * accumulation if micro_warmup else warmup,
        )

    def naive(self) -> Self:
        return replace(self, gpus=1)

    def batch(self) -> int:
        """Examples an optimizer step."""
        return self.micro_batch * self.gradient_accumulation_steps * self.gpus

    def total(self) -> int:
        """Optimizer steps of all epochs."""
        return self.epochs * f.steps_per_epoch(self.examples, self.batch())

    def warmup(self) -> int:
        """Right length of the warm-up."""
        return math.ceil(round(self.warmup_share * self.total(), 6))

    def scaled(self) -> float:
        """Right learning rate."""
        rate = self.reference_rate * math.sqrt(self.batch() / self.reference_batch)
        return float(f"{rate:.4g}")

    def gold(self) -> Gold | None:
        total, schedule = self.total(), self.schedule_steps
        if self.warmup_steps >= schedule:
            # Schedulers differ in what they do then.
            return None
        codes = {
            "schedule_counts_micro_steps": schedule == total * self.gradient_accumulation_steps,
            "schedule_ignores_ranks": schedule == total * self.gpus,
            "schedule_ignores_epochs": schedule * self.epochs == total,
            "warmup_counts_micro_steps": self.warmup_steps != self.warmup(),
            "learning_rate_off_scale": abs(self.learning_rate / self.scaled() - 1) > 0.01,
        }
        if schedule == total:
            codes |= dict.fromkeys([code for code in codes if code.startswith("schedule")], False)
        fix: dict[str, Value] = {"schedule_steps": total, "warmup_steps": self.warmup()}
        rate: dict[str, Value] = (
            {"learning_rate": self.scaled()} if codes["learning_rate_off_scale"] else {}
        )
        return answer(
            codes,
            {
                "effective_batch": self.batch(),
                "steps_per_epoch": total // self.epochs,
                "total_steps": total,
                "half_way_rate": f.linear_rate(
                    self.learning_rate, total / 2, self.warmup_steps, schedule
                ),
            },
            fix | rate,
            self,
        )


@dataclass(frozen=True)
class Warmup(Case):
    """Accumulation against warm-up and the pace of the scheduler."""

    FAMILY = "warmup_micro_steps"
    INTERACTION = "accumulation × scheduler pace × warm-up × effective batch"
    COMPUTATIONS = (
        "schedule position of the logged rate", "pace", "accumulation", "all steps", "warm-up",
        "share of the run in warm-up",
    )  # fmt: skip
    QUANTITIES = {
        "schedule_steps_per_step": EXACT, "total_steps": EXACT, "given_total_steps": EXACT,
        "real_warmup_share": LOOSE,
    }  # fmt: skip
    MEANINGS = {
        "schedule_steps_per_step": "scheduler advances an optimizer step, read from the log",
        "total_steps": "optimizer steps with the fix",
        "given_total_steps": "optimizer steps, given config",
        "real_warmup_share": "optimizer steps until the peak rate / given_total_steps",
    }
    RULES = (
        "Effective batch = micro_batch × gradient_accumulation_steps × gpus; all steps = epochs ×"
        " ceil(examples / effective batch).",
        "The log has the learning rate after logged_step optimizer steps, inside the warm-up: it"
        " is learning_rate × advances / warmup_steps. The scheduler advances 1 or"
        " gradient_accumulation_steps times an optimizer step; if the latter, scheduler_pace"
        " becomes 1 (scheduler_per_micro_batch). The given scheduler_pace, 0, leaves it to the"
        " library.",
        "gradient_accumulation_steps becomes target_batch / (micro_batch × gpus) if the effective"
        " batch is not target_batch (batch_off_target).",
        "warmup_steps must be ceil(warmup_share × all steps). Against the given number of steps it"
        " may be too long by gradient_accumulation_steps times (warmup_counts_micro_steps) or by"
        " gpus times (warmup_ignores_ranks). The fixed one follows the fixed number of steps.",
    )
    FIXABLE = (
        "scheduler_pace", "warmup_steps", "gradient_accumulation_steps", "learning_rate", "epochs",
        "warmup_share",
    )  # fmt: skip
    QUIET = (
        "loss rises again after the first tenth", "WARNING grad_norm above the clip",
        "loss falls slowly", "loss is nan at one micro-batch, skipped",
    )  # fmt: skip

    micro_batch: int = field(metadata=CONFIG)
    gradient_accumulation_steps: int = field(metadata=CONFIG)
    gpus: int = field(metadata=CONFIG)
    target_batch: int = field(metadata=CONFIG)
    epochs: int = field(metadata=CONFIG)
    learning_rate: float = field(metadata=CONFIG)
    warmup_steps: int = field(metadata=CONFIG)
    warmup_share: float = field(metadata=CONFIG)
    scheduler_pace: int = field(metadata=CONFIG)
    examples: int = field(metadata=LOG)
    logged_step: int = field(metadata=LOG)
    logged_rate: float = field(metadata=LOG)

    @classmethod
    def draw(cls, rng: Random) -> Self:
        gpus, micro = rng.choice((2, 4, 8)), rng.choice((1, 2, 4))
        right = rng.choice((3, 5, 6, 12))
        given = right if rng.random() < 0.4 else rng.choice((2 * right, right + 1, right * gpus))
        case = cls(
            micro, given, gpus, micro * right * gpus, rng.choice((1, 2, 3, 4)),
            rng.choice((5e-5, 1e-4, 2e-4)), 1, rng.choice((0.03, 0.05, 0.1)), 0,
            rng.randint(6000, 90000), 1, 1.0,
        )  # fmt: skip
        warmup = case.warmup(given) * rng.choice((1, given, given, gpus))
        pace = rng.choice((1, given))
        step = max(1, int(warmup / pace * rng.uniform(0.2, 0.9)))
        rate = float(f"{case.learning_rate * step * pace / warmup:.6g}")
        return replace(case, warmup_steps=warmup, logged_step=step, logged_rate=rate)

    def naive(self) -> Self:
        return replace(self, scheduler_pace=1)

    def cured(self, fix: Mapping[str, Value]) -> Self:
        # The log is of the broken run: what it tells of the pace stays as it was read.
        return replace(self, scheduler_pace=self.pace()).changed(fix)

    def changed(self, fix: Mapping[str, Value]) -> Self:
        """Fields replaced."""
        return super().cured(fix)

    def pace(self) -> int:
        """Advances of the scheduler in an optimizer step."""
        advances = self.logged_rate / self.learning_rate * self.warmup_steps
        return self.scheduler_pace or round(advances / self.logged_step)

    def total(self, accumulation: int) -> int:
        """Optimizer steps of all epochs."""
        batch = self.micro_batch * accumulation * self.gpus
        return self.epochs * f.steps_per_epoch(self.examples, batch)

    def warmup(self, accumulation: int) -> int:
        """Right length of the warm-up."""
        return math.ceil(round(self.warmup_share * self.total(accumulation), 6))

    def gold(self) -> Gold | None:
        given, pace = self.gradient_accumulation_steps, self.pace()
        right = self.target_batch // (self.micro_batch * self.gpus)
        ratio = self.warmup_steps / self.warmup(given)
        if pace not in (1, given) or given == self.gpus or self.total(right) < 20:
            return None
        return answer(
            {
                "scheduler_per_micro_batch": pace != 1,
                "batch_off_target": given != right,
                "warmup_counts_micro_steps": ratio == given != 1,
                "warmup_ignores_ranks": ratio == self.gpus,
            },
            {
                "schedule_steps_per_step": pace,
                "total_steps": self.total(right),
                "given_total_steps": self.total(given),
                "real_warmup_share": self.warmup_steps / pace / self.total(given),
            },
            {
                "gradient_accumulation_steps": right,
                "warmup_steps": self.warmup(right),
                **({"scheduler_pace": 1} if pace != 1 else {}),
            },
            self,
        )
