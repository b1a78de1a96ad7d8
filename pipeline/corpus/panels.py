"""Problems from files: those that are asked, protected, or held out by earlier runs.

Called by `python -m pipeline.filter` and `python -m pipeline.decontaminate`. Files
are read by the same readers as training data, so a problem and its copy look alike;
a panel needs problem and answer, the others the problem alone. holdout.py chooses the
problems that a run itself holds out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import sha256_file
from pipeline.base.errors import UserError
from pipeline.base.grading import is_readable_gold
from pipeline.base.params import HOLDOUT, Params
from pipeline.base.records import Problem, problem_id
from pipeline.corpus.readers.sources import read_rows_of
from pipeline.corpus.rows.schemas import read_question
from pipeline.corpus.rows.text import RowFault


@dataclass
class Questions:
    """The problems of one file and what was left out."""

    problems: list[Problem] = field(default_factory=list)
    read: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    first_fault: str = ""
    """`origin: reason (detail)` of the first row that was left out."""

    def drop(self, origin: str, fault: RowFault) -> None:
        """Count a row that is no question."""
        self.dropped[fault.reason] += 1
        self.first_fault = self.first_fault or f"{origin}: {fault}"

    def summary(self) -> dict[str, Any]:
        """Counts as they are written to the reports."""
        return {
            "read": self.read,
            "kept": len(self.problems),
            "dropped": dict(sorted(self.dropped.items())),
        }


def read_questions(path: Path, source: str, *, need_gold: bool) -> Questions:
    """The distinct problems of a file, in its order.

    Args:
        need_gold: leave out problems whose answer is missing or unreadable.

    Raises:
        UserError: no row of the file holds a problem.
    """
    found = Questions()
    ids: set[str] = set()
    for row in read_rows_of(path, source):
        found.read += 1
        try:
            if row.fault is not None or row.value is None:
                raise row.fault or RowFault("not-object", "no value")
            problem, gold = read_question(row.value)
            key = problem_id(problem)
            _require(problem, gold, key in ids, need_gold)
        except RowFault as fault:
            found.drop(row.origin, fault)
            continue
        ids.add(key)
        found.problems.append(Problem(key, problem, gold, source, row.origin))
    if not found.problems:
        raise UserError(
            f"{path}: none of {found.read} rows is a problem{' with its answer' * need_gold}"
            f" ({found.first_fault or 'the file is empty'})",
            "Give it columns that docs/data.md lists, e.g. `problem` and `answer`.",
        )
    return found


def _require(problem: str, gold: str, known: bool, need_gold: bool) -> None:
    if not problem:
        raise RowFault("no-problem", "the problem is empty")
    if known:
        raise RowFault("duplicate-problem", "an earlier row asks the same")
    if need_gold and not gold:
        raise RowFault("no-gold", "no field states the answer")
    if need_gold and not is_readable_gold(gold):
        raise RowFault("unreadable-gold", repr(gold[:40]))


def given_panel(params: Params, entry: dict[str, Any] | None) -> Questions | None:
    """The problems of the panel file that data.json lists; None if they are held out.

    Raises:
        UserError: no panel is listed, none can be held out, or the file is unusable.
    """
    if params.data.panel != HOLDOUT:
        if entry is None:
            raise UserError(
                f"work/prepare/data.json names no panel for data.panel = {params.data.panel}",
                "Run the prepare stage again.",
            )
        path = verified(entry)
        return read_questions(path, path.name, need_gold=True)
    if params.holdout.problems == 0:
        raise UserError(
            "data.panel is holdout and holdout.problems is 0",
            "Say how many problems to hold out, or name a panel file.",
        )
    return None


def earlier_problems(entries: Iterable[dict[str, Any]]) -> list[Problem]:
    """The distinct problems that earlier runs held out, in the order of the files.

    Args:
        entries: the files of `holdout.earlier` as data.json lists them: a panel.jsonl or
            reserve.jsonl of another run, or problems in any schema; answers are not needed.

    Raises:
        UserError: a file is unusable, or has changed since it was listed.
    """
    found: dict[str, Problem] = {}
    for entry in entries:
        path = verified(entry)
        for problem in read_questions(path, path.name, need_gold=False).problems:
            found.setdefault(problem.id, problem)
    return list(found.values())


def verified(entry: dict[str, Any]) -> Path:
    """The path of an entry of data.json, if the file is still the one that was listed.

    Raises:
        UserError: the file has changed or gone.
    """
    path = Path(entry["path"])
    if not path.is_file():
        raise UserError(f"{path}: file not found", "Put it back, or run again to list the data.")
    if sha256_file(path) != entry["sha256"]:
        raise UserError(
            f"{path}: changed since the data were listed (sha256 {entry['sha256'][:12]}… expected)",
            "Run again: the data are then listed anew.",
        )
    return path
