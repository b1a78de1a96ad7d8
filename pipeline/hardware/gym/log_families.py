"""Tasks whose log names a fault: alone (diagnosis), or beside one that no line names.

Listed in `tasks.FAMILIES`. All numbers stand in every task, so that what is shown does
not tell what is broken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import ClassVar, Self

from pipeline.hardware.gym import formulas as f
from pipeline.hardware.gym.cases import CONFIG, LOG, PROFILE, Case, Fix, Gold, Value, answer

EVENTS: dict[str, tuple[str, ...]] = {
    "disk_full": (
        "OSError: [Errno 28] No space left on device ({v} of the file written)",
        "checkpoint {v} not written: No space left on device",
    ),
    "loss_scale_collapse": (
        "FloatingPointError: loss scale {v} after another overflow, giving up",
        "Current loss scale already at minimum {v}: overflow in every step",
    ),
    "no_trained_tokens": (
        "0 trained tokens in the batch; the longest prompt with its reply has {v} tokens",
        "ValueError: all labels are -100, prompt and reply take up to {v} tokens",
    ),
    "vocabulary_mismatch": (
        "IndexError: index out of range in self (embedding, id {v})",
        "device-side assert triggered: srcIndex < srcSelectDimSize, largest id {v}",
    ),
    "positions_exceeded": (
        "Token indices sequence length is longer than the positions of the model: {v}",
        "IndexError: rotary table ended, sequence length {v}",
    ),
    "collective_timeout": (
        "Watchdog caught collective operation timeout: ALLREDUCE; rank 1 was busy for {v} s",
        "NCCL timeout: rank 3 was away for {v} seconds while saving",
    ),
    "host_memory": (
        "oom-killer: Killed process {v} (python)",
        "DataLoader worker (pid {v}) is killed by signal: Killed",
    ),
    "data_starved": (
        "waiting for data: {v} % of the step time",
        "GPU utilization {v} %, data loader is the bottleneck",
    ),
    "adapter_rank_mismatch": (
        "RuntimeError: size mismatch for lora_A.weight: the checkpoint has rank {v}",
        "Error(s) in loading state_dict: lora_B of the checkpoint is of rank {v}",
    ),
}
"""Code → lines that announce it."""


@dataclass(frozen=True)
class OneFault(Case):
    """The log names the fault; the fix takes a small computation."""

    FAMILY = "named_fault"
    TIER = "diagnosis"
    INTERACTION = "none"
    COMPUTATIONS: ClassVar[tuple[str, ...]] = ("first event of the log", "value of its field")
    RULES = (
        "The first event in the log that is an error is the cause; later ones follow from it."
        " Losses and warnings are no events.",
        "disk_full: a new checkpoint is complete before an old one is deleted; save_total_limit ="
        " floor(disk_gib / checkpoint_gib) - 1.",
        "loss_scale_collapse: precision = bf16 from capability 8.0 on, else fp32.",
        "no_trained_tokens: max_seq_len = the logged tokens, up to the next multiple of 256.",
        "vocabulary_mismatch: vocab_size = the logged id + 1, up to the next multiple of 128.",
        "positions_exceeded: rope_factor = the smallest power of two with which model_positions ×"
        " rope_factor reaches the logged length.",
        "collective_timeout: collective_timeout_s = twice the logged time, up to whole minutes.",
        "host_memory: num_workers = floor((host_gib - process_gib) / worker_gib).",
        "data_starved: num_workers = ceil(load_ms / step_ms).",
        "adapter_rank_mismatch: lora_rank = that of the checkpoint; lora_alpha keeps its ratio to"
        " lora_rank.",
        "Besides, without a line in the log: micro_batch × gradient_accumulation_steps × gpus"
        " must be target_batch (batch_off_target; change gradient_accumulation_steps). With S ="
        " epochs × ceil(examples / target_batch), schedule_steps must be S"
        " (schedule_ignores_epochs) and warmup_steps ceil(warmup_share × S)"
        " (warmup_counts_micro_steps).",
    )
    FIXABLE = (
        "save_total_limit", "precision", "max_seq_len", "vocab_size", "rope_factor",
        "collective_timeout_s", "num_workers", "lora_rank", "lora_alpha", "warmup_steps",
        "gradient_accumulation_steps", "schedule_steps",
    )  # fmt: skip

    micro_batch: int = field(metadata=CONFIG)
    gradient_accumulation_steps: int = field(metadata=CONFIG)
    gpus: int = field(metadata=CONFIG)
    target_batch: int = field(metadata=CONFIG)
    epochs: int = field(metadata=CONFIG)
    warmup_share: float = field(metadata=CONFIG)
    warmup_steps: int = field(metadata=CONFIG)
    schedule_steps: int = field(metadata=CONFIG)
    precision: str = field(metadata=CONFIG)
    max_seq_len: int = field(metadata=CONFIG)
    vocab_size: int = field(metadata=CONFIG)
    rope_factor: int = field(metadata=CONFIG)
    collective_timeout_s: int = field(metadata=CONFIG)
    num_workers: int = field(metadata=CONFIG)
    lora_rank: int = field(metadata=CONFIG)
    lora_alpha: int = field(metadata=CONFIG)
    save_total_limit: int = field(metadata=CONFIG)
    capability: float = field(metadata=PROFILE)
    disk_gib: float = field(metadata=PROFILE)
    checkpoint_gib: float = field(metadata=PROFILE)
    host_gib: float = field(metadata=PROFILE)
    process_gib: float = field(metadata=PROFILE)
    worker_gib: float = field(metadata=PROFILE)
    load_ms: float = field(metadata=PROFILE)
    step_ms: float = field(metadata=PROFILE)
    model_positions: int = field(metadata=PROFILE)
    examples: int = field(metadata=LOG)
    event: str = field(metadata={"place": "event"})
    event_value: int = field(metadata={"place": "event"})

    @classmethod
    def draw(cls, rng: Random) -> Self:
        gpus, micro, steps = rng.choice((2, 4, 8)), rng.choice((1, 2, 4)), rng.choice((3, 4, 6, 16))
        epochs, share, examples = rng.choice((2, 3, 5)), rng.choice((0.03, 0.05, 0.1)), 0
        examples, target = rng.randint(5000, 60000), micro * steps * gpus
        total = epochs * f.steps_per_epoch(examples, target)
        event, rank, step = rng.choice(list(EVENTS)), rng.choice((8, 16, 32)), rng.uniform(200, 900)
        worker = rng.uniform(1.5, 9)
        case = cls(
            micro, steps, gpus, target, epochs, share, math.ceil(round(share * total, 6)), total,
            "fp16", rng.choice((1024, 2048, 4096)), rng.choice((32000, 49152, 151936)), 1,
            rng.choice((600, 1800)), 1 if event == "data_starved" else 32, rank,
            rank * rng.choice((1, 2, 4)), rng.randint(20, 40),
            rng.choice((6.1, 7.0, 7.5, 7.5, 8.6)),
            round(rng.uniform(60, 400), 1), round(rng.uniform(5, 19), 2),
            round(worker * rng.uniform(4, 20) + 30, 1), round(rng.uniform(8, 25), 1),
            round(worker, 2), round(step * rng.uniform(1.2, 9), 1), round(step, 1),
            rng.choice((4096, 8192, 32768)), examples, event, 0,
        )  # fmt: skip
        return replace(case, event_value=case.draw_value(rng)).broken(rng)

    def draw_value(self, rng: Random) -> int:
        """The number in the line that announces the event."""
        ranges = {
            "disk_full": (100, 9000), "loss_scale_collapse": (1, 1),
            "no_trained_tokens": (self.max_seq_len + 1, 4 * self.max_seq_len),
            "vocabulary_mismatch": (self.vocab_size, self.vocab_size + 900),
            "positions_exceeded": (self.model_positions + 1, 7 * self.model_positions),
            "collective_timeout": (self.collective_timeout_s, 3 * self.collective_timeout_s),
            "host_memory": (1000, 60000), "data_starved": (40, 90),
            "adapter_rank_mismatch": (2, 64),
        }  # fmt: skip
        return rng.randint(*ranges[self.event])

    def broken(self, rng: Random) -> Self:
        """The case with its silent fault, of which this tier has none."""
        return self

    def named_fix(self) -> Fix:
        """The fields that cure the event."""
        value = self.event_value
        # One row a code, lazily: only the named one is computed.
        rows: dict[str, Callable[[], Fix]] = {
            "disk_full": lambda: {"save_total_limit": int(self.disk_gib / self.checkpoint_gib) - 1},
            "loss_scale_collapse": lambda: {
                "precision": "bf16" if self.capability >= 8 else "fp32"
            },
            "no_trained_tokens": lambda: {"max_seq_len": 256 * math.ceil(value / 256)},
            "vocabulary_mismatch": lambda: {"vocab_size": 128 * math.ceil((value + 1) / 128)},
            "positions_exceeded": lambda: {
                "rope_factor": 2 ** math.ceil(math.log2(value / self.model_positions))
            },
            "collective_timeout": lambda: {"collective_timeout_s": 60 * math.ceil(2 * value / 60)},
            "host_memory": lambda: {
                "num_workers": int((self.host_gib - self.process_gib) / self.worker_gib)
            },
            "data_starved": lambda: {"num_workers": math.ceil(self.load_ms / self.step_ms)},
            "adapter_rank_mismatch": lambda: {
                "lora_rank": value, "lora_alpha": value * (self.lora_alpha // self.lora_rank)
            },
        }  # fmt: skip
        return rows[self.event]()

    def gold(self) -> Gold | None:
        total = self.epochs * f.steps_per_epoch(self.examples, self.target_batch)
        warmup = math.ceil(round(self.warmup_share * total, 6))
        steps = self.target_batch // (self.micro_batch * self.gpus)
        named = self.named_fix() if self.event else {}
        if (
            any(value == getattr(self, name) for name, value in named.items())
            or 0 in named.values()
        ):
            return None
        codes = {
            "batch_off_target": self.gradient_accumulation_steps != steps,
            "schedule_ignores_epochs": self.schedule_steps != total,
            "warmup_counts_micro_steps": self.warmup_steps != warmup,
        }
        return answer(
            codes | ({self.event: True} if self.event else {}), {},
            {
                **named, "gradient_accumulation_steps": steps, "schedule_steps": total,
                "warmup_steps": warmup,
            },
            self,
        )  # fmt: skip

    def cured(self, fix: Mapping[str, Value]) -> Self:
        named = self.named_fix() if self.event else {}
        done = all(fix.get(name) == value for name, value in named.items())
        return replace(super().cured(fix), event="" if done else self.event)

    def lines(self, rng: Random) -> list[str]:
        """The event, and at times another one that follows from it."""
        lines = [rng.choice(EVENTS[self.event]).format(v=self.event_value)]
        if rng.random() < 0.2:
            other = rng.choice([code for code in EVENTS if code != self.event])
            lines.append(rng.choice(EVENTS[other]).format(v=rng.randint(1, 999)))
        return lines


@dataclass(frozen=True)
class TwoFaults(OneFault):
    """A fault that the log names, and one that only the numbers show."""

    FAMILY = "named_and_silent_fault"
    TIER = "two_faults"
    INTERACTION = "a named fault + a silent one"
    COMPUTATIONS = (
        "first event of the log", "value of its field", "effective batch", "all steps",
        "warm-up and schedule against them",
    )  # fmt: skip

    def broken(self, rng: Random) -> Self:
        steps = self.gradient_accumulation_steps
        return rng.choice((
            replace(self, gradient_accumulation_steps=steps * self.gpus),
            replace(self, schedule_steps=self.schedule_steps // self.epochs),
            replace(self, warmup_steps=self.warmup_steps * steps),
        ))  # fmt: skip
