"""Pieces of Markdown: numbers as a person reads them, tables, fenced text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

UNKNOWN = "not recorded"


def whole(value: float | None) -> str:
    """`12345` → `12,345`."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def percent(value: float | None) -> str:
    """`0.625` → `62.5 %`."""
    return "not measured" if value is None else f"{value * 100:.1f} %"


def interval(bounds: Sequence[float] | None) -> str:
    """`[0.5, 0.74]` → `50.0–74.0 %`."""
    if bounds is None or any(bound is None for bound in bounds):
        return "–"
    return f"{bounds[0] * 100:.1f}–{bounds[1] * 100:.1f} %"


def decimal(value: float | None, digits: int = 1) -> str:
    """A number with thousands commas and `digits` decimals."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def short(digest: str | None) -> str:
    """The first 12 digits of a hash, as code."""
    return UNKNOWN if digest is None else f"`{digest[:12]}`"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numeric: str = "") -> list[str]:
    """Lines of a table.

    Args:
        numeric: one letter a column, `r` for right-aligned; the rest is left-aligned.
    """
    marks = ["---:" if numeric[i : i + 1] == "r" else "---" for i in range(len(header))]
    lines = [header, marks, *([_cell(cell) for cell in row] for row in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def fenced(text: str, language: str = "text") -> list[str]:
    """Lines of a code block whose fence no run of backticks in `text` can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *text.rstrip().split("\n"), fence, ""]


def clipped(text: str, head: int = 600, tail: int = 300) -> str:
    """A long text without its middle; says how much was left out."""
    text = text.strip()
    left_out = len(text) - head - tail
    if left_out <= 80:
        return text
    return f"{text[:head].rstrip()}\n[… {left_out:,} characters …]\n{text[-tail:].lstrip()}"


def quoted(text: str) -> list[str]:
    """Lines of a block quote."""
    return [f"> {line}".rstrip() for line in text.strip().split("\n")] + [""]
