"""Figures in lines of text: dictionaries, Megatron's bars, `step 3 loss 2.1`, two columns.

Used by the readers of this folder; pure.
"""

from __future__ import annotations

import re

from pipeline.hardware.doctor.names import END_OF_RUN, FIGURE_OF
from pipeline.hardware.doctor.record import Line, Row

NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf(?:inity)?)"
_ALIASES = sorted(FIGURE_OF, key=len, reverse=True)
_NAMES = "|".join(re.escape(alias).replace("_", "[ _]") for alias in _ALIASES)
PAIR = re.compile(
    rf"(?<![\w/])({_NAMES})['\"]?\s*[:=]?\s*['\"]?({NUMBER})(?![\w.])(?:\s*/\s*(\d+))?",
    re.IGNORECASE,
)
COLUMNS = re.compile(rf"\s*(\d+)\s+({NUMBER})\s*")
TELLING = frozenset({"loss", "eval_loss", "reward"})
"""A line without one of these is no row of figures."""


def pairs_of(text: str) -> dict[str, float]:
    """Every known figure that a line names.

    `step 3/90` gives a step and the total of the steps.
    """
    found: dict[str, float] = {}
    for match in PAIR.finditer(text):
        name = FIGURE_OF[match[1].lower().replace(" ", "_")]
        found.setdefault(name, float(match[2].replace(",", "")))
        if name == "step" and match[3]:
            found.setdefault("total_steps", float(match[3]))
    if END_OF_RUN in text:
        found.pop("loss", None)
    return found


def rows_of(lines: list[Line]) -> list[Row]:
    """The rows of a text log; a line that tells no loss and no reward is none."""
    filled = [line for line in lines if line.text.strip()]
    columns = [COLUMNS.fullmatch(line.text) for line in filled]
    if filled and all(columns):
        return [
            Row({"step": float(match[1]), "loss": float(match[2])}, line)
            for match, line in zip(columns, filled)
            if match
        ]
    found = [(pairs_of(line.text), line) for line in filled]
    return [Row(values, line) for values, line in found if TELLING & values.keys()]
