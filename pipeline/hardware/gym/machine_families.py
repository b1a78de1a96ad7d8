"""Families about a job on its machines: tensor and pipeline parallelism, evaluation.

Listed in `tasks.FAMILIES`; each computes its gold with `formulas`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from random import Random
from typing import Self

from pipeline.hardware.gym import formulas as f
from pipeline.hardware.gym.batches import OUT_OF_MEMORY
from pipeline.hardware.gym.cases import (
    CLOSE,
    CONFIG,
    EXACT,
    LOG,
    LOOSE,
    PROFILE,
    Case,
    Gold,
    answer,
)


@dataclass(frozen=True)
class ParallelMemory(Case):
    """Tensor and pipeline parallelism against the memory of the first stage's ranks."""

    FAMILY = "parallel_memory"
    INTERACTION = "tensor × pipeline parallelism × per-rank memory × bubble"
    COMPUTATIONS = (
        "parameters of the first stage", "states of a rank", "activations in flight",
        "tensor split", "sequence split", "data-parallel ranks", "micro-batches", "bubble",
    )  # fmt: skip
    QUANTITIES = {
        "rank_parameters_billion": CLOSE, "rank_states_gib": CLOSE, "rank_activations_gib": CLOSE,
        "bubble_share": CLOSE,
    }  # fmt: skip
    MEANINGS = {
        "rank_parameters_billion": "parameters of a first-stage rank, given config, 10^9",
        "rank_states_gib": "their states, given config, GiB",
        "rank_activations_gib": "activations in flight on that rank, given config, GiB",
        "bubble_share": "(p - 1) / micro-batches, given config",
    }
    RULES = (
        "1 GiB = 2^30 bytes. t = tensor_parallel, p = pipeline_parallel, h = hidden, s ="
        " max_seq_len, m = gradient_accumulation_steps (micro-batches of one sequence).",
        "The first stage holds layers / p layers of 12·h² parameters and the embedding,"
        " vocabulary × h; a rank holds 1/t of that, 18 bytes a parameter.",
        "A layer keeps s·h·(10 + 24/t) bytes a micro-batch, with sequence_parallel s·h·34/t."
        " 1F1B keeps min(p, m) micro-batches on the first stage; the memory must hold p of them,"
        " context_gib and fragmentation_gib.",
        "tensor_parallel becomes the smallest power of two, not below the given one and at most"
        " gpus_per_node, at which the states leave room with sequence_parallel"
        " (tensor_split_too_small). Then sequence_parallel becomes true if it is needed at that"
        " size (sequence_not_split).",
        "Data-parallel ranks d = gpus / (t·p), with the fixed t. If the bubble (p - 1) /"
        " (target_batch / d) exceeds bubble_limit, target_batch becomes"
        " d·ceil((p - 1) / bubble_limit) (bubble_over_limit).",
        "Last, gradient_accumulation_steps = target_batch / d; batch_off_target if the given"
        " config (its own t and d) misses the given target.",
    )
    FIXABLE = (
        "tensor_parallel", "sequence_parallel", "gradient_accumulation_steps", "target_batch",
        "pipeline_parallel", "learning_rate",
    )  # fmt: skip
    SYMPTOMS = OUT_OF_MEMORY
    QUIET = ("pipeline flush: stage 0 idle", "throughput 23 % below the plan")

    gpus: int = field(metadata=CONFIG)
    gpus_per_node: int = field(metadata=CONFIG)
    tensor_parallel: int = field(metadata=CONFIG)
    pipeline_parallel: int = field(metadata=CONFIG)
    sequence_parallel: bool = field(metadata=CONFIG)
    gradient_accumulation_steps: int = field(metadata=CONFIG)
    target_batch: int = field(metadata=CONFIG)
    bubble_limit: float = field(metadata=CONFIG)
    layers: int = field(metadata=CONFIG)
    hidden: int = field(metadata=CONFIG)
    vocabulary: int = field(metadata=CONFIG)
    max_seq_len: int = field(metadata=CONFIG)
    memory_gib: float = field(metadata=PROFILE)
    context_gib: float = field(metadata=PROFILE)
    fragmentation_gib: float = field(metadata=LOG)

    @classmethod
    def draw(cls, rng: Random) -> Self:
        tensor, stages = rng.choice((1, 2, 4)), rng.choice((2, 4, 8))
        gpus = rng.choice((32, 64))
        data = gpus // (tensor * stages)
        steps = rng.choice((4, 8, 16, 32))
        target = data * steps
        if rng.random() < 0.3:
            steps *= rng.choice((2, 3))
        layers, hidden, vocabulary = rng.choice(
            ((32, 4096, 128256), (40, 5120, 151936), (48, 6144, 100352), (80, 8192, 128256))
        )
        return cls(
            gpus, 8, tensor, stages, rng.random() < 0.4, steps, target,
            rng.choice((0.1, 0.25, 0.5)), layers, hidden, vocabulary,
            rng.choice((2048, 4096, 8192)), rng.choice((39.4, 63.6, 79.2)),
            round(rng.uniform(0.6, 2.5), 2), round(rng.uniform(0.4, 4), 2),
        )  # fmt: skip

    def naive(self) -> Self:
        return replace(self, context_gib=0.0, fragmentation_gib=0.0, vocabulary=0)

    def parameters(self, tensor: int) -> float:
        """Parameters of a rank of the first stage."""
        stages = self.pipeline_parallel
        return f.stage_parameters(self.layers, self.hidden, self.vocabulary, stages) / tensor

    def activations(self, tensor: int, in_flight: int, *, split: bool) -> float:
        """Activations of the first stage, GiB."""
        layer = f.parallel_layer_activation_bytes(
            self.max_seq_len, self.hidden, tensor, sequence_parallel=split
        )
        return in_flight * layer * self.layers / self.pipeline_parallel / f.GIB

    def holds(self, tensor: int, *, split: bool) -> bool:
        """Whether a first-stage rank has the memory."""
        rest = self.context_gib + self.fragmentation_gib
        states = 18 * self.parameters(tensor) / f.GIB
        active = self.activations(tensor, self.pipeline_parallel, split=split)
        return states + active + rest <= self.memory_gib

    def gold(self) -> Gold | None:
        stages, given = self.pipeline_parallel, self.tensor_parallel
        sizes = [t for t in (1, 2, 4, 8) if given <= t <= self.gpus_per_node]
        tensor = next((t for t in sizes if self.holds(t, split=True)), 0)
        if not tensor or tensor * stages > self.gpus:
            return None
        split = self.sequence_parallel or not self.holds(tensor, split=False)
        data, before = self.gpus // (tensor * stages), self.gpus // (given * stages)
        bubble = f.pipeline_bubble(stages, self.target_batch // data)
        least = math.ceil(round((stages - 1) / self.bubble_limit, 9))
        target = self.target_batch if bubble <= self.bubble_limit else data * least
        steps = self.gradient_accumulation_steps
        return answer(
            {
                "tensor_split_too_small": tensor != given,
                "sequence_not_split": split != self.sequence_parallel,
                "bubble_over_limit": target != self.target_batch,
                "batch_off_target": before * steps != self.target_batch,
            },
            {
                "rank_parameters_billion": self.parameters(given) / 1e9,
                "rank_states_gib": 18 * self.parameters(given) / f.GIB,
                "rank_activations_gib": self.activations(
                    given, min(stages, steps), split=self.sequence_parallel
                ),
                "bubble_share": f.pipeline_bubble(stages, steps),
            },
            {
                "tensor_parallel": tensor, "sequence_parallel": split, "target_batch": target,
                "gradient_accumulation_steps": target // data,
            },
            self,
        )  # fmt: skip


@dataclass(frozen=True)
class EvaluationMemory(Case):
    """Key-value cache against the evaluation's batch and time."""

    FAMILY = "kv_evaluation"
    INTERACTION = "KV cache × evaluation batch × evaluation time"
    COMPUTATIONS = (
        "cache of a sequence", "free memory", "states to release", "batch", "rounds",
        "hours of a sample a problem", "samples",
    )  # fmt: skip
    QUANTITIES = {
        "kv_gib_per_sequence": CLOSE, "free_gib": CLOSE, "fitting_sequences": EXACT,
        "evaluation_hours": LOOSE,
    }  # fmt: skip
    MEANINGS = {
        "kv_gib_per_sequence": "cache of a sequence at full length, GiB",
        "free_gib": "memory for the cache with the fix, GiB",
        "fitting_sequences": "whole sequences that it holds",
        "evaluation_hours": "all rounds with the fix, hours",
    }
    RULES = (
        "1 GiB = 2^30 bytes. A token of the cache takes 2 × 2 × layers × kv_heads × head_width"
        " bytes; a sequence has prompt_tokens + max_new_tokens of them.",
        "Free memory = memory_gib - weights_gib - context_gib - fragmentation_gib, minus"
        " training_states_gib unless release_training_states is true.",
        "release_training_states becomes true if it is false and not even one sequence fits"
        " (training_states_kept). Then eval_batch_size is cut to the whole sequences that fit, if"
        " it is larger (kv_cache_over_budget).",
        "Rounds = ceil(problems × samples_per_problem / eval_batch_size), each of max_new_tokens"
        " steps of decode_step_ms. samples_per_problem becomes the largest, not above the given"
        " one, whose rounds take at most evaluation_budget_hours with the fixed batch"
        " (evaluation_over_time).",
    )
    FIXABLE = (
        "release_training_states", "eval_batch_size", "samples_per_problem", "max_new_tokens",
        "micro_batch", "problems",
    )  # fmt: skip
    SYMPTOMS = OUT_OF_MEMORY
    QUIET = ("evaluation stopped by the clock",)

    layers: int = field(metadata=CONFIG)
    kv_heads: int = field(metadata=CONFIG)
    head_width: int = field(metadata=CONFIG)
    prompt_tokens: int = field(metadata=CONFIG)
    max_new_tokens: int = field(metadata=CONFIG)
    eval_batch_size: int = field(metadata=CONFIG)
    problems: int = field(metadata=CONFIG)
    samples_per_problem: int = field(metadata=CONFIG)
    release_training_states: bool = field(metadata=CONFIG)
    evaluation_budget_hours: float = field(metadata=CONFIG)
    memory_gib: float = field(metadata=PROFILE)
    weights_gib: float = field(metadata=PROFILE)
    training_states_gib: float = field(metadata=PROFILE)
    context_gib: float = field(metadata=PROFILE)
    fragmentation_gib: float = field(metadata=LOG)
    decode_step_ms: float = field(metadata=LOG)

    @classmethod
    def draw(cls, rng: Random) -> Self:
        layers, heads, width, weights = rng.choice(
            ((28, 8, 128, 3.2), (36, 8, 128, 7.5), (36, 8, 128, 15.3), (40, 8, 128, 9.4))
        )
        return cls(
            layers, heads, width, rng.choice((256, 512, 1024)), rng.choice((4096, 8192, 16384)),
            rng.choice((8, 16, 32, 64)), rng.choice((30, 64, 128)), rng.choice((3, 4, 8, 16)),
            rng.random() < 0.3, rng.choice((0.5, 1.0, 2.0, 3.0)),
            rng.choice((14.6, 22.1, 39.4, 79.2)), weights, round(rng.uniform(1, 50), 2),
            round(rng.uniform(0.4, 1.5), 2), round(rng.uniform(0.2, 3), 2),
            round(rng.uniform(18, 60), 1),
        )  # fmt: skip

    def naive(self) -> Self:
        return replace(self, context_gib=0.0, fragmentation_gib=0.0, prompt_tokens=0)

    def hours(self, samples: int, batch: int) -> float:
        """All rounds, hours."""
        rounds = math.ceil(self.problems * samples / batch)
        return rounds * self.max_new_tokens * self.decode_step_ms / 3.6e6

    def gold(self) -> Gold | None:
        token = f.kv_bytes_per_token(self.layers, self.kv_heads, self.head_width)
        each = token * (self.prompt_tokens + self.max_new_tokens) / f.GIB
        most = self.memory_gib - self.weights_gib - self.context_gib - self.fragmentation_gib
        kept = 0.0 if self.release_training_states else self.training_states_gib
        release = self.release_training_states or most - kept < each
        free = most if release else most - kept
        if free < each:
            return None
        batch = min(self.eval_batch_size, int(free / each))
        limit, asked = self.evaluation_budget_hours, self.samples_per_problem
        samples = next((k for k in range(asked, 0, -1) if self.hours(k, batch) <= limit), 0)
        if not samples:
            return None
        return answer(
            {
                "training_states_kept": release != self.release_training_states,
                "kv_cache_over_budget": batch != self.eval_batch_size,
                "evaluation_over_time": samples != asked,
            },
            {
                "kv_gib_per_sequence": each, "free_gib": free,
                "fitting_sequences": int(free / each),
                "evaluation_hours": self.hours(samples, batch),
            },
            {
                "release_training_states": release, "eval_batch_size": batch,
                "samples_per_problem": samples,
            },
            self,
        )  # fmt: skip
