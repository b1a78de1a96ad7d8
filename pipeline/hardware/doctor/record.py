"""What the doctor knows of a run: settings, rows of figures and lines of text, each with its place.

Filled by the readers of this folder and judged by its rules. Pure data: nothing is read
or written here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

Value = str | float | bool | None
"""A setting or the new value of a field."""

LONGEST_TEXT = 200
"""Characters of a line that are shown."""


@dataclass(frozen=True)
class Line:
    """One line of a file, as evidence.

    Attributes:
        number: from 1.
    """

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        text = " ".join(self.text.split())
        cut = text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
        return f"{self.file}:{self.number}: {cut}"


@dataclass(frozen=True)
class Setting:
    """A value of a configuration and the field that holds it.

    Attributes:
        key: the field as its owner writes it; a fix names it.
    """

    key: str
    value: Value
    line: Line


@dataclass(frozen=True)
class Row:
    """Figures of one moment of training, under the names of names.py."""

    values: dict[str, float]
    line: Line


@dataclass(frozen=True)
class Finding:
    """One diagnosis.

    Attributes:
        code: a key of codes.CODES.
        fix: field → its new value; the fewest fields that cure it, empty if the files do
            not tell.
        effect: what the fix is predicted to do.
    """

    code: str
    evidence: tuple[Line, ...]
    fix: dict[str, Value] = field(default_factory=dict)
    effect: str = ""


@dataclass(frozen=True)
class Point:
    """One value of a series."""

    step: float
    value: float
    line: Line


@dataclass
class Record:
    """Everything that was read.

    Attributes:
        kinds: what the files were, in the order of reading.
        lines: of plain text logs, in order.
    """

    kinds: list[str] = field(default_factory=list)
    settings: dict[str, Setting] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def put(self, name: str, setting: Setting) -> None:
        """Keep a setting; the first file that tells it is believed."""
        self.settings.setdefault(name, setting)

    def number(self, name: str) -> float | None:
        """A setting as a finite number, else None."""
        value = self.settings[name].value if name in self.settings else None
        if isinstance(value, bool) or value is None:
            return None
        try:
            number = float(value)
        except ValueError:
            return None
        return number if math.isfinite(number) else None

    def text(self, name: str) -> str:
        """A setting in lower case; empty when it is not told."""
        value = self.settings[name].value if name in self.settings else None
        return "" if value is None else str(value).lower()

    def evidence(self, *names: str) -> tuple[Line, ...]:
        """The lines of those settings that are told."""
        return tuple(self.settings[name].line for name in names if name in self.settings)

    def fix(self, name: str, value: Value) -> dict[str, Value]:
        """A field and its new value, under the name that the run's own configuration uses."""
        key = self.settings[name].key if name in self.settings else name
        return {key: value}

    def series(self, name: str) -> list[Point]:
        """The values of one figure over the steps, in the order of the files."""
        return list(self._points(name))

    def _points(self, name: str) -> Iterator[Point]:
        for place, row in enumerate(self.rows, start=1):
            if name in row.values:
                step = row.values.get("step", float(place))
                yield Point(step, row.values[name], row.line)

    def steps(self) -> float | None:
        """Optimizer steps of the whole run as planned, if any file tells."""
        planned = self.number("max_steps")
        if planned:
            return planned
        totals = [point.value for point in self._points("total_steps")]
        return max(totals, default=None)
