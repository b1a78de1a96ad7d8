"""The shape of every row that crosses from one stage to another.

Rows travel as JSON lines. A field that is missing, unknown or of another type
is refused when a row is read, so that stages of two versions cannot disagree in
silence. docs/data.md lists the files and who reads them. A line that passes through
a stage unchanged is copied as bytes; reading and writing it again costs ten times more.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from pipeline.base.artifacts import replacing, sha256_text
from pipeline.base.errors import UserError

MAIN = "main"
"""Name of the prompt of params.yaml itself, beside those of `prompt.variants`."""

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Trace:
    """A problem with one worked solution: what the model learns from."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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
    group: str
    """Smallest id among the problem and its near copies."""
    tier: str
    """`easy`, `medium`, `hard` or `unknown`."""
    solve_rate: float | None
    """Share of attempts that solved the problem, as the source states it; null: unknown."""
    weight: float
    """Weight of its source in the token budget."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with its answer: what the model is asked in an evaluation."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    id: str
    problem: str
    gold: str
    source: str
    origin: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """A row that goes no further, and why."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    id: str
    """The problem's id."""
    sample: int
    """0-based number of the reply among the k of this problem and variant."""
    variant: str
    """Name of the prompt that asked; without `prompt.variants` it is `MAIN`."""
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


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {
    kind: TypeAdapter(kind) for kind in (Trace, Problem, Dropped, Sample)
}


def to_line(row: Row) -> bytes:
    """A row as one line of strict JSON in UTF-8, fields in the declared order, LF included.

    Raises:
        UserError: a text of the row cannot be encoded (half a surrogate pair).
    """
    try:
        return _ADAPTERS[type(row)].dump_json(row) + b"\n"
    except ValueError as error:
        raise UserError(f"a {type(row).__name__} cannot be written: {error}", "") from None


def from_line(kind: type[Row], line: bytes | str, where: str) -> Row:
    """Read one row back.

    Raises:
        UserError: naming `where` and the field that is missing, unknown or of
            another type than declared.
    """
    try:
        row: Row = _ADAPTERS[kind].validate_json(line)
    except ValidationError as error:
        raise UserError(
            f"{where}: {_fault(kind, error)}", "Run the stage that wrote it again."
        ) from None
    return row


def _fault(kind: type[Any], error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"missing field `{name}`"
    if first["type"] == "unexpected_keyword_argument":
        return f"unknown field `{name}`"
    if first["type"] == "json_invalid":
        return f"not valid JSON ({first['msg']})"
    said = f"`{name}` = {first['input']!r}: " if name else f"a {kind.__name__} must be an object: "
    return f"{said}{first['msg'].lower()}"


def read_rows(kind: type[Row], path: Path) -> Iterator[Row]:
    """Yield the rows of a file that a stage has written."""
    for number, line in enumerate(read_lines(path), start=1):
        yield from_line(kind, line, f"{path}:{number}")


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file that a stage has written, line ends included.

    Raises:
        UserError: the file is missing.
    """
    try:
        with path.open("rb") as stream:
            yield from stream
    except FileNotFoundError:
        raise UserError(
            f"{path}: file not found", "Run the stage that makes it: `dvc repro`."
        ) from None


def write_rows(path: Path, rows: Iterable[Row]) -> int:
    """Replace `path` by these rows; return how many there were."""
    return write_lines(path, (to_line(row) for row in rows))


def write_lines(path: Path, lines: Iterable[bytes]) -> int:
    """Replace `path` by these lines; return how many there were."""
    count = 0
    with replacing(path) as temporary:
        with temporary.open("wb") as stream:
            for line in lines:
                stream.write(line)
                count += 1
    return count
