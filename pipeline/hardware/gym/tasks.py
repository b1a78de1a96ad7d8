"""Makes tasks: families, splits, fresh variants; the same seed gives the same tasks.

Called by `environment`, the audit and `python -m pipeline.gym`. A split is a number of
tasks and a seed of its own; seeds of fresh variants live in another space, so that no
variant can repeat a held-out task by its seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from pipeline.base.errors import UserError
from pipeline.hardware.gym.cases import Case, Gold, Value
from pipeline.hardware.gym.codes import FITS_NOT
from pipeline.hardware.gym.disk_family import CheckpointDisk
from pipeline.hardware.gym.footprint_families import Logits, OptimizerMemory
from pipeline.hardware.gym.log_families import OneFault, TwoFaults
from pipeline.hardware.gym.machine_families import EvaluationMemory, ParallelMemory
from pipeline.hardware.gym.memory_families import Checkpointing, ZeroMemory
from pipeline.hardware.gym.packing_family import PackingTime
from pipeline.hardware.gym.prompt import write
from pipeline.hardware.gym.schedule_families import Schedule, Warmup

COMPUTED: tuple[type[Case], ...] = (
    ZeroMemory, Checkpointing, PackingTime, OptimizerMemory, Schedule, ParallelMemory, Warmup,
    EvaluationMemory, Logits, CheckpointDisk,
)  # fmt: skip
FAMILIES: tuple[type[Case], ...] = (OneFault, TwoFaults, *COMPUTED)

SHARES = {"diagnosis": 0.10, "two_faults": 0.20}
"""Of a split; the rest is computed."""
SPLITS = {"train": 1200, "hard": 200, "test": 244}
CAUGHT = 0.9
"""Share of computed tasks, all of them in hard, whose naive estimate gives a wrong fix."""
DRAWS = 10_000
"""Draws until a family must have given a task."""


@dataclass(frozen=True)
class Task:
    """One task.

    Args:
        prompt: the text.
        gold: the right answer.
        metadata: split, family, tier, interaction, reasoning_depth, computations,
            naive_fails, fields and quantities.
    """

    id: str
    prompt: str
    gold: Gold
    metadata: Mapping[str, object]
    case: Case

    @property
    def fields(self) -> frozenset[str]:
        """Config fields that a fix may name."""
        return frozenset(self.case.FIXABLE)

    @property
    def quantities(self) -> Mapping[str, float]:
        """Intermediate → relative tolerance."""
        return self.case.QUANTITIES


def naive_fix(case: Case) -> Mapping[str, Value] | None:
    """The fix that a hasty estimate gives; None when it finds none."""
    gold = case.naive().gold()
    return None if gold is None else gold.fix


def needs_all(case: Case, fix: Mapping[str, Value]) -> bool:
    """Whether a fix without any one of its fields leaves something broken."""
    for left_out in fix:
        part = {name: value for name, value in fix.items() if name != left_out}
        after = case.cured(part).gold()
        if after is not None and not after.codes:
            return False
    return True


def draw(family: type[Case], rng: Random, *, must_fail: bool) -> tuple[Case, Gold]:
    """A broken case of a family that can be cured, computed ones with two causes or more.

    Args:
        must_fail: the naive estimate must give a wrong fix.
    """
    least = 1 if family.TIER == "diagnosis" else 2
    for _ in range(DRAWS):
        case = family.draw(rng)
        gold = case.gold()
        if gold is None or len(gold.codes) < least:
            continue
        if must_fail and naive_fix(case) == gold.fix:
            continue
        if needs_all(case, gold.fix):
            return case, gold
    raise RuntimeError(f"{family.__name__}: no task in {DRAWS} draws")


def make(name: str, number: int, family: type[Case], *, hard: bool) -> Task:
    """Task `number` of a split or variant called `name`."""
    rng = Random(f"{name}/{number}")
    computed = family.TIER == "computed"
    case, gold = draw(family, rng, must_fail=computed and (hard or rng.random() < CAUGHT))
    fails = naive_fix(case) != gold.fix if computed else None
    metadata = {
        "split": name, "family": family.FAMILY, "tier": family.TIER,
        "interaction": family.INTERACTION, "reasoning_depth": len(family.COMPUTATIONS),
        "computations": list(family.COMPUTATIONS), "naive_fails": fails,
        "fields": list(family.FIXABLE), "quantities": dict(family.QUANTITIES),
    }  # fmt: skip
    prompt = write(case, rng, fits=not FITS_NOT & set(gold.codes))
    return Task(f"{name}-{number:05d}", prompt, gold, metadata, case)


def order(name: str, count: int, *, hard: bool) -> list[type[Case]]:
    """Family of each task of a split, shares kept to a task."""
    single = 0 if hard else round(SHARES["diagnosis"] * count)
    double = round(SHARES["two_faults"] * count)
    computed = [COMPUTED[n % len(COMPUTED)] for n in range(count - single - double)]
    families: list[type[Case]] = [OneFault] * single + [TwoFaults] * double + computed
    Random(f"{name}/order").shuffle(families)
    return families


def build(name: str, count: int, *, hard: bool) -> list[Task]:
    """All tasks of a split or variant."""
    families = order(name, count, hard=hard)
    return [make(name, number, family, hard=hard) for number, family in enumerate(families)]


def split(name: str) -> list[Task]:
    """The tasks of a split.

    Raises:
        UserError: there is no split of that name.
    """
    if name not in SPLITS:
        raise UserError(f"gym: no split {name!r}", f"Name one of {', '.join(SPLITS)}.")
    return build(name, SPLITS[name], hard=name == "hard")


def fresh(seed: int, count: int, *, hard: bool = False) -> list[Task]:
    """New tasks, disjoint from all splits by their seed.

    Raises:
        UserError: count is below 1.
    """
    if count < 1:
        raise UserError(f"gym: {count} fresh tasks", "Ask for at least 1.")
    return build(f"fresh-{'hard-' if hard else ''}{seed}", count, hard=hard)
