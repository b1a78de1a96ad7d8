"""Families about one rank's memory: ZeRO stages, checkpointing, optimizers, logits.

Listed in `tasks.FAMILIES`. Each computes its gold with `formulas`; the order in which
settings may change is part of the text, so that one fix alone is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Self

from pipeline.hardware.gym import formulas as f
from pipeline.hardware.gym.batches import (
    BATCH_RULE,
    MICRO_RULE,
    OUT_OF_MEMORY,
    Batch,
    batch_answer,
    divisor_batches,
)
from pipeline.hardware.gym.cases import CLOSE, CONFIG, EXACT, LOG, PROFILE, Case, Gold


@dataclass(frozen=True)
class ZeroMemory(Case):
    """ZeRO stage against the memory budget of a rank."""

    FAMILY = "zero_memory"
    INTERACTION = "ZeRO stage × memory budget × effective batch"
    COMPUTATIONS = (
        "bytes a parameter at the stage", "fixed memory", "stage that leaves room",
        "room for activations", "micro-batch", "accumulation",
    )  # fmt: skip
    QUANTITIES = {
        "state_bytes_per_parameter": CLOSE, "fixed_gib": CLOSE, "activation_room_gib": CLOSE,
        "effective_batch": EXACT,
    }  # fmt: skip
    MEANINGS = {
        "state_bytes_per_parameter": "bytes on one rank, given config",
        "fixed_gib": "states, context, fragmentation and gathered layers, given config, GiB",
        "activation_room_gib": "memory_gib minus the fixed memory at the fixed stage, GiB",
        "effective_batch": "sequences an optimizer step, given config",
    }
    RULES = (
        "1 GiB = 2^30 bytes; params_billion counts 10^9 parameters.",
        "bf16 weight 2 bytes, bf16 gradient 2, fp32 master and AdamW moments 12. Stage 1 divides"
        " the 12 by gpus, stage 2 the gradient too, stage 3 the weight too.",
        "Fixed memory = states + context_gib + fragmentation_gib, and gathered_gib at stage 3.",
        "If the fixed memory and one sequence (activation_gib_per_sequence) exceed memory_gib,"
        " raise zero_stage to the smallest that holds them (states_over_budget).",
        MICRO_RULE,
        BATCH_RULE,
    )
    FIXABLE = (
        "zero_stage", "micro_batch", "gradient_accumulation_steps", "learning_rate", "max_seq_len",
        "precision",
    )  # fmt: skip
    SYMPTOMS = OUT_OF_MEMORY

    params_billion: float = field(metadata=CONFIG)
    gpus: int = field(metadata=CONFIG)
    zero_stage: int = field(metadata=CONFIG)
    micro_batch: int = field(metadata=CONFIG)
    gradient_accumulation_steps: int = field(metadata=CONFIG)
    target_batch: int = field(metadata=CONFIG)
    memory_gib: float = field(metadata=PROFILE)
    context_gib: float = field(metadata=PROFILE)
    gathered_gib: float = field(metadata=PROFILE)
    activation_gib_per_sequence: float = field(metadata=PROFILE)
    fragmentation_gib: float = field(metadata=LOG)

    @classmethod
    def draw(cls, rng: Random) -> Self:
        gpus = rng.choice((2, 4, 8, 16))
        micro, steps, target = divisor_batches(rng, gpus)
        return cls(
            round(rng.uniform(0.5, 14), 2), gpus, rng.choice((0, 0, 1, 1, 2)), micro, steps, target,
            rng.choice((14.6, 22.1, 39.4, 79.2, 139.8)), round(rng.uniform(0.4, 2.2), 2),
            round(rng.uniform(0.3, 2.5), 2), round(rng.uniform(0.5, 9), 2),
            round(rng.uniform(0.3, 4), 2),
        )  # fmt: skip

    def naive(self) -> Self:
        return replace(self, context_gib=0.0, fragmentation_gib=0.0, gathered_gib=0.0)

    def fixed(self, stage: int) -> float:
        """Memory that no batch changes, GiB."""
        states = f.zero_bytes_per_parameter(stage, self.gpus) * self.params_billion * 1e9 / f.GIB
        gathered = self.gathered_gib if stage == 3 else 0.0
        return states + self.context_gib + self.fragmentation_gib + gathered

    def batch(self) -> Batch:
        """How a step is cut up, as configured."""
        steps = self.gradient_accumulation_steps
        return Batch(self.micro_batch, steps, self.gpus, self.target_batch)

    def gold(self) -> Gold | None:
        one = self.activation_gib_per_sequence
        holding = [
            stage
            for stage in range(self.zero_stage, 4)
            if self.fixed(stage) + one <= self.memory_gib
        ]
        if not holding:
            return None
        stage = holding[0]
        room = self.memory_gib - self.fixed(stage)
        return batch_answer(
            self,
            self.batch(), room / one,
            {"states_over_budget": stage != self.zero_stage},
            {
                "state_bytes_per_parameter": f.zero_bytes_per_parameter(self.zero_stage, self.gpus),
                "fixed_gib": self.fixed(self.zero_stage),
                "activation_room_gib": room,
            },
            {"zero_stage": stage},
        )  # fmt: skip


@dataclass(frozen=True)
class Checkpointing(Case):
    """Checkpointing level against accumulation."""

    FAMILY = "checkpointing_accumulation"
    INTERACTION = "activation checkpointing × micro-batch × accumulation"
    COMPUTATIONS = (
        "room for activations", "activations of a sequence at each level", "mildest level",
        "micro-batch", "accumulation", "recompute",
    )  # fmt: skip
    QUANTITIES = {
        "sequence_activation_gib": CLOSE, "activation_room_gib": CLOSE,
        "fitting_sequences": EXACT, "effective_batch": EXACT,
    }  # fmt: skip
    MEANINGS = {
        "sequence_activation_gib": "activations of one sequence, given config, GiB",
        "activation_room_gib": "memory_gib minus fixed_gib minus fragmentation_gib, GiB",
        "fitting_sequences": "whole sequences that the room holds at the fixed level",
        "effective_batch": "sequences an optimizer step, given config",
    }
    RULES = (
        "1 GiB = 2^30 bytes. With s = max_seq_len, h = hidden, a = heads and one sequence, a layer"
        " keeps s·h·(34 + 5·a·s/h) bytes (checkpointing none), 34·s·h (selective) or 2·s·h (full);"
        " full adds one whole layer of 34·s·h while it is made again.",
        "checkpointing becomes the mildest of none, selective, full at which min_micro_batch"
        " sequences fit: checkpointing_too_weak if that is stronger than the given one,"
        " checkpointing_excessive if milder.",
        MICRO_RULE,
        BATCH_RULE,
    )
    FIXABLE = (
        "checkpointing", "micro_batch", "gradient_accumulation_steps", "learning_rate",
        "max_seq_len", "zero_stage",
    )  # fmt: skip
    SYMPTOMS = OUT_OF_MEMORY
    QUIET = ("throughput 41 % below the plan", "step time far above the plan")

    layers: int = field(metadata=CONFIG)
    hidden: int = field(metadata=CONFIG)
    heads: int = field(metadata=CONFIG)
    max_seq_len: int = field(metadata=CONFIG)
    checkpointing: str = field(metadata=CONFIG)
    micro_batch: int = field(metadata=CONFIG)
    min_micro_batch: int = field(metadata=CONFIG)
    gradient_accumulation_steps: int = field(metadata=CONFIG)
    gpus: int = field(metadata=CONFIG)
    target_batch: int = field(metadata=CONFIG)
    memory_gib: float = field(metadata=PROFILE)
    fixed_gib: float = field(metadata=PROFILE)
    fragmentation_gib: float = field(metadata=LOG)

    @classmethod
    def draw(cls, rng: Random) -> Self:
        gpus = rng.choice((1, 2, 4, 8))
        micro, steps, target = divisor_batches(rng, gpus)
        layers, hidden, heads = rng.choice(
            ((24, 2048, 16), (28, 1536, 12), (32, 4096, 32), (36, 2560, 32), (40, 5120, 40))
        )
        memory = rng.choice((22.1, 39.4, 79.2, 139.8))
        return cls(
            layers, hidden, heads, rng.choice((512, 768, 1024, 1536, 2048, 3072, 4096)),
            rng.choice(f.CHECKPOINTING), micro, rng.choice((1, 2)), steps, gpus, target, memory,
            round(memory * rng.uniform(0.3, 0.85), 2), round(rng.uniform(0.4, 5), 2),
        )  # fmt: skip

    def naive(self) -> Self:
        return replace(self, fragmentation_gib=0.0, heads=0)

    def sequence_gib(self, kind: str) -> float:
        """Activations of one sequence, GiB, with the layer that `full` makes again."""
        length = self.max_seq_len
        return (
            f.activation_bytes(self.layers, length, length, self.hidden, self.heads, kind) / f.GIB
        )

    def batch(self) -> Batch:
        """How a step is cut up, as configured."""
        steps = self.gradient_accumulation_steps
        return Batch(self.micro_batch, steps, self.gpus, self.target_batch)

    def gold(self) -> Gold | None:
        room = self.memory_gib - self.fixed_gib - self.fragmentation_gib
        holding = [
            kind
            for kind in f.CHECKPOINTING
            if self.min_micro_batch * self.sequence_gib(kind) <= room
        ]
        if not holding:
            return None
        level = f.CHECKPOINTING.index
        return batch_answer(
            self,
            self.batch(), room / self.sequence_gib(holding[0]),
            {
                "checkpointing_too_weak": level(holding[0]) > level(self.checkpointing),
                "checkpointing_excessive": level(holding[0]) < level(self.checkpointing),
            },
            {
                "sequence_activation_gib": self.sequence_gib(self.checkpointing),
                "activation_room_gib": room,
                "fitting_sequences": int(room / self.sequence_gib(holding[0])),
            },
            {"checkpointing": holding[0]},
        )  # fmt: skip
