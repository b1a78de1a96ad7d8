"""Families about memory beside the model's own: optimizer states and logits.

Listed in `tasks.FAMILIES`; rules and helpers are those of `memory_families`.
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
class OptimizerMemory(Case):
    """Optimizer against memory, with embeddings that need not be trained."""

    FAMILY = "optimizer_memory"
    INTERACTION = "optimizer × trained parameters × memory footprint"
    COMPUTATIONS = (
        "trained parameters", "state bytes", "fixed memory", "embeddings", "optimizer",
        "micro-batch", "accumulation",
    )  # fmt: skip
    QUANTITIES = {
        "trained_parameters_million": CLOSE, "optimizer_gib": CLOSE, "fixed_gib": CLOSE,
        "effective_batch": EXACT,
    }  # fmt: skip
    MEANINGS = {
        "trained_parameters_million": "parameters with gradients, given config, 10^6",
        "optimizer_gib": "masters and moments, given config, GiB",
        "fixed_gib": "weights, gradients, optimizer, context, fragmentation, given config, GiB",
        "effective_batch": "sequences an optimizer step, given config",
    }
    RULES = (
        "1 GiB = 2^30 bytes. All params_billion weights lie in bf16, 2 bytes each. Trained are"
        " trained_layers × layer_params_million × 10^6 parameters and, with train_embeddings,"
        " 2 × vocabulary × hidden more.",
        "A trained parameter needs a bf16 gradient (2 bytes) and an fp32 master and moments:"
        " adamw 12 bytes, adamw_8bit 6, adafactor 4.",
        "Fixed memory = weights + gradients + masters and moments + context_gib +"
        " fragmentation_gib.",
        "First, train_embeddings becomes false if it is true and no token was added"
        " (embeddings_trained_needlessly). Then optimizer becomes the first of adamw, adamw_8bit,"
        " adafactor, not before the given one, that leaves room for one sequence"
        " (optimizer_over_budget if that is another one).",
        MICRO_RULE,
        BATCH_RULE,
    )
    FIXABLE = (
        "train_embeddings", "optimizer", "micro_batch", "gradient_accumulation_steps",
        "trained_layers", "learning_rate",
    )  # fmt: skip
    SYMPTOMS = OUT_OF_MEMORY

    params_billion: float = field(metadata=CONFIG)
    trained_layers: int = field(metadata=CONFIG)
    train_embeddings: bool = field(metadata=CONFIG)
    vocabulary: int = field(metadata=CONFIG)
    hidden: int = field(metadata=CONFIG)
    optimizer: str = field(metadata=CONFIG)
    micro_batch: int = field(metadata=CONFIG)
    gradient_accumulation_steps: int = field(metadata=CONFIG)
    gpus: int = field(metadata=CONFIG)
    target_batch: int = field(metadata=CONFIG)
    memory_gib: float = field(metadata=PROFILE)
    context_gib: float = field(metadata=PROFILE)
    layer_params_million: float = field(metadata=PROFILE)
    activation_gib_per_sequence: float = field(metadata=PROFILE)
    fragmentation_gib: float = field(metadata=LOG)
    added_tokens: int = field(metadata=LOG)

    @classmethod
    def draw(cls, rng: Random) -> Self:
        gpus = rng.choice((1, 2, 4))
        micro, steps, target = divisor_batches(rng, gpus)
        params, hidden, layer = rng.choice(
            ((3.1, 2048, 77.1), (4.02, 2560, 101.0), (7.62, 3584, 233.1), (8.19, 4096, 193.0))
        )
        return cls(
            params, rng.randint(4, 28), rng.random() < 0.7, rng.choice((128256, 151936, 152064)),
            hidden, rng.choice(("adamw", "adamw", "adamw_8bit")), micro, steps, gpus, target,
            rng.choice((22.1, 39.4, 79.2)), round(rng.uniform(0.4, 2), 2), layer,
            round(rng.uniform(0.5, 6), 2), round(rng.uniform(0.3, 4), 2),
            rng.choice((0, 0, 0, 2, 16)),
        )  # fmt: skip

    def naive(self) -> Self:
        return replace(self, context_gib=0.0, fragmentation_gib=0.0, vocabulary=0)

    def trained(self, *, embeddings: bool) -> float:
        """Parameters with a gradient."""
        more = 2 * self.vocabulary * self.hidden if embeddings else 0
        return self.trained_layers * self.layer_params_million * 1e6 + more

    def fixed(self, optimizer: str, *, embeddings: bool) -> float:
        """Memory that no batch changes, GiB."""
        each = 2 + f.MASTER_AND_MOMENTS[optimizer]
        states = 2 * self.params_billion * 1e9 + each * self.trained(embeddings=embeddings)
        return states / f.GIB + self.context_gib + self.fragmentation_gib

    def batch(self) -> Batch:
        """How a step is cut up, as configured."""
        steps = self.gradient_accumulation_steps
        return Batch(self.micro_batch, steps, self.gpus, self.target_batch)

    def gold(self) -> Gold | None:
        embeddings = self.train_embeddings and self.added_tokens > 0
        one = self.activation_gib_per_sequence
        room = {
            name: self.memory_gib - self.fixed(name, embeddings=embeddings)
            for name in f.OPTIMIZERS[f.OPTIMIZERS.index(self.optimizer) :]
        }
        chosen = next((name for name in room if room[name] >= one), None)
        if chosen is None:
            return None
        given = self.trained(embeddings=self.train_embeddings)
        return batch_answer(
            self,
            self.batch(), room[chosen] / one,
            {
                "embeddings_trained_needlessly": embeddings != self.train_embeddings,
                "optimizer_over_budget": chosen != self.optimizer,
            },
            {
                "trained_parameters_million": given / 1e6,
                "optimizer_gib": f.MASTER_AND_MOMENTS[self.optimizer] * given / f.GIB,
                "fixed_gib": self.fixed(self.optimizer, embeddings=self.train_embeddings),
            },
            {"train_embeddings": embeddings, "optimizer": chosen},
        )  # fmt: skip


@dataclass(frozen=True)
class Logits(Case):
    """Vocabulary and loss chunk against memory."""

    FAMILY = "logits_chunk"
    INTERACTION = "vocabulary × loss chunk × micro-batch"
    COMPUTATIONS = (
        "tokens of a micro-batch", "logit bytes", "room", "largest chunk", "micro-batch",
        "accumulation",
    )  # fmt: skip
    QUANTITIES = {
        "logits_gib": CLOSE, "room_gib": CLOSE, "chunk_gib": CLOSE, "effective_batch": EXACT,
    }  # fmt: skip
    MEANINGS = {
        "logits_gib": "logits of a chunk (of the micro-batch, if smaller), given config, GiB",
        "room_gib": "memory_gib minus fixed_gib minus fragmentation_gib, GiB",
        "chunk_gib": "logits of a chunk with the fix, GiB",
        "effective_batch": "sequences an optimizer step, given config",
    }
    RULES = (
        "1 GiB = 2^30 bytes. An entry of the logits takes 10 bytes: bf16 value, fp32 copy, fp32"
        " gradient. Logits exist for min(loss_chunk_tokens, micro_batch × max_seq_len) tokens;"
        " loss_chunk_tokens 0 stands for all of them.",
        "If the logits take more than a quarter of the room, loss_chunk_tokens becomes the largest"
        " power of two whose logits take at most a quarter of it (logits_over_budget).",
        "The activations of the micro-batch must fit beside the logits of the fixed config,"
        " counted as a whole chunk (with 0: all tokens of the given micro-batch).",
        MICRO_RULE,
        BATCH_RULE,
    )
    FIXABLE = (
        "loss_chunk_tokens", "micro_batch", "gradient_accumulation_steps", "max_seq_len",
        "learning_rate", "precision",
    )  # fmt: skip
    SYMPTOMS = OUT_OF_MEMORY

    vocabulary: int = field(metadata=CONFIG)
    max_seq_len: int = field(metadata=CONFIG)
    loss_chunk_tokens: int = field(metadata=CONFIG)
    micro_batch: int = field(metadata=CONFIG)
    gradient_accumulation_steps: int = field(metadata=CONFIG)
    gpus: int = field(metadata=CONFIG)
    target_batch: int = field(metadata=CONFIG)
    memory_gib: float = field(metadata=PROFILE)
    fixed_gib: float = field(metadata=PROFILE)
    activation_gib_per_sequence: float = field(metadata=PROFILE)
    fragmentation_gib: float = field(metadata=LOG)

    @classmethod
    def draw(cls, rng: Random) -> Self:
        gpus = rng.choice((1, 2, 4, 8))
        micro, steps, target = divisor_batches(rng, gpus)
        memory = rng.choice((14.6, 22.1, 39.4, 79.2))
        return cls(
            rng.choice((32000, 49152, 128256, 151936, 256000)),
            rng.choice((2048, 4096, 8192, 16384)), rng.choice((0, 0, 4096, 8192, 16384)),
            micro, steps, gpus, target, memory, round(memory * rng.uniform(0.2, 0.8), 2),
            round(rng.uniform(0.4, 6), 2), round(rng.uniform(0.3, 3), 2),
        )  # fmt: skip

    def naive(self) -> Self:
        return replace(self, fragmentation_gib=0.0, vocabulary=self.vocabulary // 5)

    def gib(self, tokens: int) -> float:
        """Logits of so many tokens, GiB."""
        return f.logits_bytes(tokens, self.vocabulary) / f.GIB

    def batch(self) -> Batch:
        """How a step is cut up, as configured."""
        steps = self.gradient_accumulation_steps
        return Batch(self.micro_batch, steps, self.gpus, self.target_batch)

    def gold(self) -> Gold | None:
        room = self.memory_gib - self.fixed_gib - self.fragmentation_gib
        tokens = self.micro_batch * self.max_seq_len
        given = min(self.loss_chunk_tokens or tokens, tokens)
        chunk = self.loss_chunk_tokens
        if over := self.gib(given) > room / 4:
            chunk = next((2**k for k in range(20, 0, -1) if self.gib(2**k) <= room / 4), 0)
            if not chunk:
                return None
        held = self.gib(chunk or tokens)
        return batch_answer(
            self,
            self.batch(), (room - held) / self.activation_gib_per_sequence,
            {"logits_over_budget": over},
            {"logits_gib": self.gib(given), "room_gib": room, "chunk_gib": held},
            {"loss_chunk_tokens": chunk},
        )  # fmt: skip
