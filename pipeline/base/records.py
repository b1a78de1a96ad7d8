"""The shape of every row that crosses from one stage to another.

Rows travel as JSON lines. A field that is missing, unknown or of another type
is refused when a row is read, so that stages of two versions cannot disagree in
silence. docs/data.md lists the files and who reads them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from pipeline.base.artifacts import read_jsonl, sha256_text, write_jsonl
from pipeline.base.errors import UserError


@dataclass(frozen=True, slots=True)
class Trace:
    """A problem with one worked solution: what the model learns from."""

    id: str
    """`problem_id` of the problem text; equal problems share it."""
    problem: str
    """The problem alone: no instruction, no dataset wrapper."""
    gold: str
    """The right answer as the data set states it, without a box."""
    thinking: str
    """Private reasoning, without its tags; empty if the trace has none."""
    solution: str
    r"""The visible reply; ends with its answer in `\boxed{}`."""
    source: str
    """Name of the file it came from."""
    origin: str
    """`file:line` (or `file#index`), for a person who looks it up."""
    tokens: int
    """Tokens of prompt, reply and end token under the run's template."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with its answer: what the model is asked in an evaluation."""

    id: str
    problem: str
    gold: str
    source: str
    origin: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """A row that goes no further, and why."""

    origin: str
    source: str
    reason: str
    """A code of the stage's documented list."""
    detail: str
    """The figures or the text that decided it."""
    excerpt: str
    """The start of the row, for the eye."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One reply to one problem, with its verdict."""

    id: str
    """The problem's id."""
    sample: int
    """0-based number of the reply among the k of this problem."""
    prompt: str
    reply: str
    tokens: int
    """Generated tokens, the end token included."""
    truncated: bool
    """The token limit ended the reply."""
    gold: str
    answer: str
    """What was taken from the last box; empty if there was none."""
    correct: bool
    reason: str
    """Reason code of the grader."""


Row = TypeVar("Row", Trace, Problem, Dropped, Sample)

EXCERPT_CHARACTERS = 160


def excerpt(text: str) -> str:
    """The start of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT_CHARACTERS else line[: EXCERPT_CHARACTERS - 1] + "…"


def normalise_problem(problem: str) -> str:
    """Fold what does not change a problem: case, blanks, Unicode forms, LaTeX spacing.

    Digits, operators and letters all stay, so that problems that differ in a
    number keep different keys.
    """
    text = unicodedata.normalize("NFKC", problem).lower()
    text = re.sub(r"\\[,;:! ]|~|\\quad|\\qquad|\\left|\\right|\$", " ", text)
    return " ".join(text.split()).rstrip(" .?!:")


def problem_id(problem: str) -> str:
    """16 hexadecimal digits that equal problems share."""
    return sha256_text(normalise_problem(problem))[:16]


def to_json(row: Row) -> dict[str, Any]:
    """A row as a JSON object, fields in the declared order."""
    return asdict(row)


_CHECKS = {"str": str, "int": int, "bool": bool}


def from_json(kind: type[Row], value: Any, where: str) -> Row:
    """Read one row back.

    Raises:
        UserError: naming `where` and the field that is missing, unknown or of
            another type than declared.
    """
    if not isinstance(value, dict):
        raise UserError(f"{where}: a {kind.__name__} must be an object", "Run the stage again.")
    expected = {field.name: _CHECKS[str(field.type)] for field in fields(kind)}
    for name in expected.keys() ^ value.keys():
        fault = "unknown" if name in value else "missing"
        raise UserError(f"{where}: {fault} field `{name}`", "Run the stage that wrote it again.")
    for name, wanted in expected.items():
        if type(value[name]) is not wanted:
            raise UserError(
                f"{where}: `{name}` = {value[name]!r} is not {wanted.__name__}",
                "Run the stage that wrote it again.",
            )
    return kind(**value)


def read_rows(kind: type[Row], path: Path) -> Iterator[Row]:
    """Yield the rows of a file that a stage has written."""
    for number, value in enumerate(read_jsonl(path), start=1):
        yield from_json(kind, value, f"{path}:{number}")


def write_rows(path: Path, rows: Iterable[Row]) -> int:
    """Replace `path` by these rows; return how many there were."""
    return write_jsonl(path, (to_json(row) for row in rows))
