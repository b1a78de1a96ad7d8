"""The family about checkpoints: their size against the disk and the time that writing takes.

Listed in `tasks.FAMILIES`; its gold is computed from the numbers alone.
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
class CheckpointDisk(Case):
    """Checkpoints against the disk and the time that writing takes."""

    FAMILY = "checkpoint_disk"
    INTERACTION = "optimizer sharding × retention × save interval"
    COMPUTATIONS = (
        "size of a checkpoint",
        "sharding",
        "checkpoints that fit",
        "seconds of a save",
        "interval",
    )
    QUANTITIES = {"checkpoint_gib": CLOSE, "fixed_checkpoint_gib": CLOSE, "save_seconds": LOOSE}
    MEANINGS = {
        "checkpoint_gib": "one checkpoint, given config, GiB",
        "fixed_checkpoint_gib": "one checkpoint with the fix, GiB",
        "save_seconds": "time to write it with the fix, s",
    }
    RULES = (
        "1 GiB = 2^30 bytes. A checkpoint holds bf16 weights (2 bytes a parameter) once and fp32"
        " master and moments (12 bytes a trained parameter) once with save_sharded, else once a"
        " rank, gpus times.",
        "save_sharded becomes true if it is false and gpus is above 1 (every_rank_saves_all).",
        "A new checkpoint is complete before an old one is deleted: save_total_limit + 1 of them"
        " must fit in disk_free_gib. save_total_limit is cut to what fits with the fix, if it is"
        " larger (checkpoints_over_disk).",
        "A save takes checkpoint size / disk_write_gib_per_s and must take at most save_share of"
        " the training time between saves, save_steps × seconds_per_step. If it does not,"
        " save_steps becomes the smallest whole number with which it does (saving_over_time).",
    )
    FIXABLE = (
        "save_sharded", "save_total_limit", "save_steps", "gpus", "micro_batch", "precision",
    )  # fmt: skip
    SYMPTOMS = (
        "OSError: [Errno 28] No space left on device",
        "checkpoint writer: write failed, disk quota exceeded",
    )
    QUIET = (
        "checkpoint writer: queue full, training waits",
        "RuntimeError: collective timed out while rank 0 was saving",
    )

    params_billion: float = field(metadata=CONFIG)
    trained_billion: float = field(metadata=CONFIG)
    gpus: int = field(metadata=CONFIG)
    save_sharded: bool = field(metadata=CONFIG)
    save_total_limit: int = field(metadata=CONFIG)
    save_steps: int = field(metadata=CONFIG)
    save_share: float = field(metadata=CONFIG)
    disk_free_gib: float = field(metadata=PROFILE)
    disk_write_gib_per_s: float = field(metadata=LOG)
    seconds_per_step: float = field(metadata=LOG)

    @classmethod
    def draw(cls, rng: Random) -> Self:
        params = round(rng.uniform(0.5, 14), 2)
        return cls(
            params, round(params * rng.choice((0.05, 0.3, 1.0)), 3), rng.choice((2, 4, 8)),
            rng.random() < 0.45, rng.randint(2, 9), rng.choice((10, 20, 50, 100)),
            rng.choice((0.01, 0.02, 0.05)), float(rng.randint(40, 900)),
            round(rng.uniform(0.3, 3), 2), round(rng.uniform(1.5, 20), 2),
        )  # fmt: skip

    def naive(self) -> Self:
        return replace(self, trained_billion=0.0, disk_free_gib=self.disk_free_gib * 1.2)

    def size(self, *, sharded: bool) -> float:
        """One checkpoint, GiB."""
        copies = 1 if sharded else self.gpus
        return (2 * self.params_billion + 12 * self.trained_billion * copies) * 1e9 / f.GIB

    def gold(self) -> Gold | None:
        size = self.size(sharded=True)
        limit = min(self.save_total_limit, int(self.disk_free_gib / size) - 1)
        seconds = size / self.disk_write_gib_per_s
        least = math.ceil(seconds / self.save_share / self.seconds_per_step)
        steps = max(self.save_steps, least)
        if limit < 1:
            return None
        return answer(
            {
                "every_rank_saves_all": not self.save_sharded,
                "checkpoints_over_disk": limit != self.save_total_limit,
                "saving_over_time": steps != self.save_steps,
            },
            {
                "checkpoint_gib": self.size(sharded=self.save_sharded),
                "fixed_checkpoint_gib": size, "save_seconds": seconds,
            },
            {"save_sharded": True, "save_total_limit": limit, "save_steps": steps},
            self,
        )  # fmt: skip
