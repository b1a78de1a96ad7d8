"""Writes the text of a task and reads its numbers back.

`write` is called by `tasks`; `Text` by the solver and by the players of the audit. The
text has the sections Task, Codes, Fields, Rules, Quantities, Config, Profiler, Log and
Answer; it never says which family it is of.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Self

from pipeline.hardware.gym.cases import Case, Value, in_place
from pipeline.hardware.gym.codes import CODES
from pipeline.hardware.gym.phrases import PREFIXES, losses, say

TASK = (
    "A training run is broken or wasteful. From its config, the profiler's numbers and the log,"
    " find every cause, work out the quantities asked for, and give the smallest fix: only the"
    " fields that must change, each with its new value. The log shows symptoms; the numbers tell"
    " the causes. Fix causes in the order of the rules."
)
FORM = (
    "Reply with one JSON object and nothing after it. Its keys: diagnosis, a list of codes;"
    " {intermediates}fix, an object from field to new value."
)
WITH_QUANTITIES = "intermediates, an object from each quantity to its number or null; "
FILLER: dict[str, tuple[Value, ...]] = {
    "seed": (0, 1, 7, 42), "weight_decay": (0.0, 0.01, 0.1), "logging_steps": (1, 5, 10),
    "max_grad_norm": (0.5, 1.0), "dataloader_pin_memory": (True, False),
    "lr_scheduler_type": ("linear",), "run_name": ("a1", "sft-3", "base-lora"),
}  # fmt: skip
"""Config fields that have nothing to do with any fault."""


def section(title: str, lines: list[str]) -> str:
    """A section of the text."""
    return "\n".join([f"## {title}", *lines, ""])


def config_lines(case: Case, rng: Random) -> list[str]:
    """The config as JSON, its fields in random order among unrelated ones."""
    entries = list(in_place(case, "config").items())
    entries += [(name, rng.choice(FILLER[name])) for name in rng.sample(list(FILLER), 3)]
    rng.shuffle(entries)
    rows = (f'  "{name}": {json.dumps(value)}' for name, value in entries)
    return ["{", ",\n".join(rows), "}"]


def log_lines(case: Case, rng: Random, *, fits: bool) -> list[str]:
    """The log: numbers among ordinary lines, then what the run ended with."""
    prefix = rng.choice(PREFIXES)
    told = [prefix + say(name, value, rng) for name, value in in_place(case, "log").items()]
    rng.shuffle(told)
    cut = rng.randint(0, len(told))
    end = case.lines(rng) or [rng.choice(case.QUIET if fits else case.SYMPTOMS)]
    return [*told[:cut], *losses(rng), *told[cut:], *(prefix + line for line in end)]


@cache
def frame(family: type[Case]) -> tuple[str, str]:
    """What stands before and after the numbers, the same in all tasks of a family."""
    quantities = [f"- {name}: {meaning}" for name, meaning in family.MEANINGS.items()]
    parts = [
        ("Task", [TASK]),
        ("Codes", [f"- {code}: {meaning}" for code, meaning in CODES.items()]),
        ("Fields that may change", [", ".join(sorted(family.FIXABLE))]),
        ("Rules", [f"{n}. {rule}" for n, rule in enumerate(family.RULES, 1)]),
        *([("Quantities", quantities)] if quantities else []),
    ]
    form = FORM.format(intermediates=WITH_QUANTITIES if quantities else "")
    return "\n".join(section(*part) for part in parts), section("Answer", [form])


def write(case: Case, rng: Random, *, fits: bool) -> str:
    """The text of a task; it holds everything that the answer needs.

    Args:
        fits: whether the run has the memory and disk that it needs.
    """
    profile = list(in_place(case, "profile").items())
    rng.shuffle(profile)
    before, after = frame(type(case))
    parts = [
        ("Config", config_lines(case, rng)),
        ("Profiler", [f"{name:<32}{value}" for name, value in profile]),
        ("Log", log_lines(case, rng, fits=fits)),
    ]
    return "\n".join([before, *(section(title, lines) for title, lines in parts), after])


@dataclass(frozen=True)
class Text:
    """What a reader gets out of a prompt without understanding it."""

    config: dict[str, Value]
    profile: dict[str, str]
    log: str
    fields: tuple[str, ...]
    quantities: tuple[str, ...]

    @classmethod
    def of(cls, prompt: str) -> Self:
        """Cut a prompt into its sections."""
        parts = re.split(r"^## (.+)\n", prompt, flags=re.MULTILINE)
        found = dict(zip(parts[1::2], parts[2::2]))
        profile = (line.split() for line in found["Profiler"].splitlines() if line)
        return cls(
            json.loads(found["Config"]),
            {line[0]: line[1] for line in profile},
            found["Log"],
            tuple(found["Fields that may change"].strip().split(", ")),
            tuple(re.findall(r"^- (\w+):", found.get("Quantities", ""), re.MULTILINE)),
        )
