"""The problems that training must not repeat: the panel, always, and the protected files.

Reads work/filter/panel.jsonl and the files that work/prepare/protected.json lists, in their
published schemas; writes nothing. Called by `python -m pipeline.semantic` and
`python -m pipeline.decontaminate`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import Json
from pipeline.base.records import Problem, read_rows
from pipeline.corpus.overlap.known_sets import Recognition, recognise
from pipeline.corpus.panels import read_questions, verified
from pipeline.corpus.readers.sources import source_names

PANEL = Path("work/filter/panel.jsonl")
PANEL_NAME = "panel"


@dataclass(frozen=True, slots=True)
class ProtectedSet:
    """One set of distinct protected problems."""

    name: str
    problems: list[Problem]
    """Their `source` is the set's name; ids are distinct within the set."""
    repeated: int
    """Rows that repeat an earlier problem of the file; they are counted once."""
    unreadable: int
    """Rows of the file that hold no problem and therefore protect nothing."""
    known: Recognition
    """Which public set it is, and whether it is whole."""

    def summary(self) -> dict[str, Json]:
        """The set's own figures, as report.json states them."""
        return {
            "name": self.name,
            "problems": len(self.problems),
            "repeated": self.repeated,
            "unreadable": self.unreadable,
            "known_set": self.known.known,
            "state": self.known.state,
            "expected_problems": self.known.expected,
        }


def load_sets(entries: list[dict[str, Any]]) -> list[ProtectedSet]:
    """The panel and every protected file, in the order of the list.

    Args:
        entries: protected.json: path, bytes and sha256 of each file.

    Raises:
        UserError: a file has changed, is missing or holds no problem.
    """
    rows = [replace(problem, source=PANEL_NAME) for problem in read_rows(Problem, PANEL)]
    sets = [make_set(PANEL_NAME, rows)]
    paths = [verified(entry) for entry in entries]
    for path, name in zip(paths, source_names(paths) if paths else [], strict=True):
        name = "panel (protected file)" if name == PANEL_NAME else name
        found = read_questions(path, name, need_gold=False)
        repeated = found.dropped["duplicate-problem"]
        unreadable = found.dropped.total() - repeated
        sets.append(make_set(name, found.problems, repeated, unreadable, str(path)))
    return sets


def make_set(
    name: str, problems: list[Problem], repeated: int = 0, unreadable: int = 0, path: str = ""
) -> ProtectedSet:
    """A protected set of these problems, each id once; its first occurrence stays."""
    distinct = list({problem.id: problem for problem in reversed(problems)}.values())[::-1]
    repeated += len(problems) - len(distinct)
    known = recognise(path or name, [problem.id for problem in distinct])
    return ProtectedSet(name, distinct, repeated, unreadable, known)
