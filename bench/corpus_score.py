"""Which planted copies a screen has found, and which clean rows it took with them.

Called by `bench.corpus`. Every contestant is judged on the same rows: those that reach the
decontamination. A planted row that an earlier stage had dropped counts for nobody.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.corpus_rows import Plant


@dataclass(frozen=True, slots=True)
class Score:
    """What one contestant has dropped."""

    found: dict[str, int]
    """Kind → planted rows that it dropped."""
    planted: dict[str, int]
    """Kind → planted rows that reached it."""
    false_drops: int
    clean: int
    """Rows without a planted copy that reached it."""

    @property
    def recall(self) -> float:
        """Share of all planted rows that were dropped."""
        return sum(self.found.values()) / max(1, sum(self.planted.values()))


def row_of(origin: str) -> int:
    """0-based row of `rows.jsonl:18`."""
    return int(origin.rpartition(":")[2]) - 1


def read_planted(path: Path) -> list[Plant]:
    """planted.jsonl."""
    with path.open(encoding="utf-8") as stream:
        return [Plant(**json.loads(line)) for line in stream]


def origins(path: Path) -> list[str]:
    """`origin` of every row of a file of lines."""
    with path.open(encoding="utf-8") as stream:
        return [json.loads(line)["origin"] for line in stream]


def score(planted: Iterable[Plant], reached: Iterable[str], dropped: Iterable[str]) -> Score:
    """Compare what was dropped with what was planted.

    Args:
        reached: origins of the rows that the contestant was given.
        dropped: origins of the rows that it dropped.

    Raises:
        ValueError: it dropped a row that it was not given.
    """
    given = {row_of(origin) for origin in reached}
    gone = {row_of(origin) for origin in dropped}
    if gone - given:
        raise ValueError(f"row {min(gone - given)} was dropped and never given")
    there = [plant for plant in planted if plant.row in given]
    copies = {plant.row for plant in there}
    return Score(
        found=dict(Counter(plant.kind for plant in there if plant.row in gone)),
        planted=dict(sorted(Counter(plant.kind for plant in there).items())),
        false_drops=len(gone - copies),
        clean=len(given - copies),
    )
