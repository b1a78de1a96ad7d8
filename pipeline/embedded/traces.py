"""The embedded data: worked sums with a fifth of dirt, and the problems that measure.

Writes work/embedded/traces.jsonl and work/embedded/panel.jsonl (problem, solution,
answer; problem, answer). The same rows and seed give the same bytes on every
machine. No clean row holds a panel problem, whatever its words or signs.

    python -m pipeline.prepare        (makes them when they are missing or differ)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from pipeline.base.artifacts import write_text
from pipeline.embedded.dirt import SHARES, clean, panel_copies
from pipeline.embedded.sums import Sum, draw

TRACES = Path("work/embedded/traces.jsonl")
PANEL = Path("work/embedded/panel.jsonl")

PANEL_PROBLEMS = 96
PANEL_SEED = 2_000_000_000
"""Far from every data seed: reasoning-gym adds a row's number to the seed."""

SEED_STRIDE = 10_000_000
"""Rows that one data seed may use before it would meet the next one's."""

DUPLICATE_SHARE = 0.03
PANEL_COPY_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class Material:
    """All lines of the two files."""

    traces: list[str]
    panel: list[str]
    counts: dict[str, int]
    """Rows of each kind: `clean`, `duplicate`, `panel_copy` and those of `dirt.SHARES`."""


def panel_sums() -> list[Sum]:
    """The problems that base and adapter are asked; the same for every data seed."""
    return list(islice(draw(PANEL_SEED), PANEL_PROBLEMS))


def _words(text: str) -> str:
    """A text's words alone, so that two sums that differ in signs look alike."""
    return " " + " ".join(re.findall(r"\w+", text.lower())) + " "


def unlike(sums: Iterator[Sum], panel: list[Sum]) -> Iterator[Sum]:
    """Those of `sums` that neither are nor contain a panel problem."""
    expressions = {item.expression for item in panel}
    texts = [_words(item.question) for item in panel]
    for item in sums:
        words = _words(item.question)
        if item.expression not in expressions and not any(text in words for text in texts):
            yield item


def generate(rows: int, seed: int) -> Material:
    """Make `rows` lines of traces, a fifth of them dirty, and the panel.

    Shares are rounded down, so that few rows stay readable; `counts` adds up to
    `rows`.
    """
    random = Random(f"dirt {seed}")
    panel = panel_sums()
    fresh = unlike(draw(seed * SEED_STRIDE), panel)
    lines: list[str] = []
    counts: dict[str, int] = {}
    for kind, (make, share) in SHARES.items():
        counts[kind] = int(rows * share)
        lines += [make(item, random) for item in islice(fresh, counts[kind])]
    copies = panel_copies(panel)
    counts["panel_copy"] = min(int(rows * PANEL_COPY_SHARE), len(copies))
    lines += random.sample(copies, counts["panel_copy"])
    counts["duplicate"] = int(rows * DUPLICATE_SHARE)
    counts["clean"] = rows - sum(counts.values())
    good = [clean(item, random) for item in islice(fresh, counts["clean"])]
    lines += good + random.sample(good, counts["duplicate"])
    random.shuffle(lines)
    asked = [json.dumps({"problem": p.question, "answer": str(p.answer)}) for p in panel]
    return Material(lines, asked, counts)


def ensure_material(rows: int, seed: int, traces: Path = TRACES, panel: Path = PANEL) -> None:
    """Write the two files unless they already hold exactly what would be written.

    Raises:
        UserError: reasoning-gym is not installed.
    """
    material = generate(rows, seed)
    for path, lines in ((traces, material.traces), (panel, material.panel)):
        text = "".join(f"{line}\n" for line in lines)
        if not path.is_file() or path.read_bytes() != text.encode("utf-8"):
            write_text(path, text)
