"""Worked sums: reasoning-gym draws the expressions, the words are ours.

Reads the installed package reasoning-gym; writes nothing. The sums are the default
of a minute-long demonstration because a 135 M model learns them in a minute.
Used by `pipeline.embedded.traces`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from pipeline.base.errors import UserError

REQUIREMENT = "reasoning-gym==0.1.25"
PACKAGE = "reasoning_gym"

SHAPE = {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 2}
"""What is drawn: `15 - 43 - 75`, `4 + 1`."""

QUESTIONS = (
    "What is {}?",
    "Calculate the value of {}.",
    "Work out {}.",
    "How much is {}?",
    "Find the value of {}.",
    "A pupil has to work out {} without a calculator. What is the result?",
)
"""At least four words with two numbers: what is shorter counts for no copy when embedded
in another text."""


@dataclass(frozen=True, slots=True)
class Sum:
    """One sum with its question."""

    expression: str
    """Numbers and signs parted by blanks: `15 - 43 - 75`."""
    answer: int
    question: str

    @property
    def steps(self) -> list[str]:
        """`15 - 43 = -28`, `-28 - 75 = -103`: one operation each, left to right."""
        first, *rest = self.expression.split()
        total, lines = int(first), []
        for sign, number in zip(rest[::2], rest[1::2], strict=True):
            after = total + int(number) if sign == "+" else total - int(number)
            lines.append(f"{total} {sign} {number} = {after}")
            total = after
        return lines

    @property
    def solution(self) -> str:
        """The steps, numbered, and the boxed answer."""
        lines = [f"Step {number}: {step}." for number, step in enumerate(self.steps, start=1)]
        return "\n".join([*lines, f"The answer is \\boxed{{{self.answer}}}."])


def load_chain_sum() -> ModuleType:
    """reasoning_gym.arithmetic.chain_sum, without the rest of its package.

    The package's own __init__ files import a hundred data sets with compiled
    dependencies. Empty parents that only know their folder stand in for them while
    this one module is imported, and go again, so that a later `import reasoning_gym`
    by anyone gets the real one. Needs nothing but PyYAML.

    Raises:
        UserError: the package is not installed.
    """
    kept = {name: sys.modules.pop(name) for name in _names()}
    spec = importlib.util.find_spec(PACKAGE)
    try:
        if spec is None or spec.origin is None:
            raise UserError(
                f"embedded data: Python package {REQUIREMENT} is not installed",
                f"Run `make setup`, or `pip install --no-deps {REQUIREMENT}`.",
            )
        folder = Path(spec.origin).parent
        for name, place in ((PACKAGE, folder), (f"{PACKAGE}.arithmetic", folder / "arithmetic")):
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__path__ = [str(place)]
        return importlib.import_module(f"{PACKAGE}.arithmetic.chain_sum")
    finally:
        for name in _names():
            del sys.modules[name]
        sys.modules.update(kept)


def _names() -> list[str]:
    """The package's modules that are loaded now."""
    return [name for name in sys.modules if name.partition(".")[0] == PACKAGE]


def draw(seed: int) -> Iterator[Sum]:
    """Distinct sums without end; equal seeds give equal sums on every machine."""
    module: Any = load_chain_sum()
    rows = module.ChainSumDataset(module.ChainSumConfig(seed=seed, **SHAPE))
    wording = Random(f"wording {seed}")
    seen: set[str] = set()
    for number in count():
        row = rows[number]
        expression = row["metadata"]["expression"]
        question = wording.choice(QUESTIONS).format(expression)
        if expression not in seen:
            seen.add(expression)
            yield Sum(expression, int(row["answer"]), question)
