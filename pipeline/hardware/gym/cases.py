"""What a task is made of: the numbers of a broken run and what follows from them.

A `Case` is a frozen dataclass whose fields say where a reader finds them: in the config,
in the profiler's table or in the log. Its subclasses are the families of tasks; they
compute the gold from the numbers alone. The prompt is written from a case, and the
solver builds the same case from a prompt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from random import Random
from types import MappingProxyType
from typing import ClassVar, Self, get_type_hints

Value = bool | int | float | str
Fix = dict[str, Value]

EXACT, CLOSE, LOOSE = 1e-9, 5e-3, 2e-2
"""Relative tolerances: counts; sizes that follow from given numbers; times."""

CONFIG = MappingProxyType({"place": "config"})
PROFILE = MappingProxyType({"place": "profile"})
LOG = MappingProxyType({"place": "log"})
HIDDEN = MappingProxyType({"place": "log", "hidden": True})
"""A number of the log that only some tasks of a family show; -1 where it is not shown."""


@dataclass(frozen=True)
class Gold:
    """The right answer of a task.

    Args:
        codes: diagnosis codes, sorted.
        intermediates: quantity → value; empty where none is asked for.
        fix: config field → new value; no field can be left out.
    """

    codes: tuple[str, ...]
    intermediates: Mapping[str, float]
    fix: Mapping[str, Value]


@dataclass(frozen=True)
class Case(ABC):
    """The numbers of one broken run."""

    FAMILY: ClassVar[str]
    TIER: ClassVar[str] = "computed"
    INTERACTION: ClassVar[str]
    """Which settings act on each other."""
    COMPUTATIONS: ClassVar[tuple[str, ...]]
    """What must be worked out, in this order; their number is the reasoning depth."""
    QUANTITIES: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """Intermediate → relative tolerance."""
    MEANINGS: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Intermediate → what it is, with its unit."""
    RULES: ClassVar[tuple[str, ...]]
    """Formulas and conventions; with them the answer is unique."""
    FIXABLE: ClassVar[tuple[str, ...]]
    SYMPTOMS: ClassVar[tuple[str, ...]] = ()
    """Lines that the log may end with when the run does not fit; they name no cause."""
    QUIET: ClassVar[tuple[str, ...]] = ("stopped by hand after 31 steps",)
    """Lines that it may end with when the run fits, and is wrong or slow."""

    @classmethod
    @abstractmethod
    def draw(cls, rng: Random) -> Self:
        """A case, broken or not; `tasks` draws until `gold` accepts one."""

    @abstractmethod
    def gold(self) -> Gold | None:
        """What is wrong and what cures it; None when no fix exists. No codes: healthy."""

    def naive(self) -> Self:
        """The case as a hasty reader sees it, with the terms left out that are easy to miss."""
        return self

    def cured(self, fix: Mapping[str, Value]) -> Self:
        """The same run with a fix applied."""
        return replace(self, **dict(fix))

    def lines(self, rng: Random) -> list[str]:
        """Lines of the log that are special to this case, before its symptom."""
        return []


@cache
def places(case: type[Case]) -> tuple[tuple[str, str, bool], ...]:
    """Name, place and whether it may be missing, of each field."""
    return tuple(
        (f.name, f.metadata["place"], bool(f.metadata.get("hidden"))) for f in fields(case)
    )


@cache
def kinds(case: type[Case]) -> Mapping[str, type]:
    """Name → type of each field."""
    hints = get_type_hints(case)
    return {f.name: hints[f.name] for f in fields(case)}


def in_place(case: Case, place: str) -> dict[str, Value]:
    """The values that a reader finds in one place."""
    return {
        name: getattr(case, name)
        for name, where, hidden in places(type(case))
        if where == place and not (hidden and getattr(case, name) == -1)
    }


def answer(
    codes: Mapping[str, bool],
    intermediates: Mapping[str, float],
    fix: Mapping[str, Value],
    of: Case,
) -> Gold:
    """A gold from flags; a fix names only what really changes."""
    return Gold(
        tuple(sorted(code for code, found in codes.items() if found)),
        dict(intermediates),
        {name: value for name, value in fix.items() if getattr(of, name) != value},
    )
