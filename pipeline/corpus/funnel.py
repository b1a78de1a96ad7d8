"""What became of every row: counts by file and reason, and what to say if none is left.

Called by judge.py and settle.py, which count, and by `python -m pipeline.filter`,
`.decontaminate` and `.select`; it shapes work/filter/funnel.json. Memory holds counts
and one example a reason, never the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import read_json, write_json
from pipeline.base.errors import UserError
from pipeline.base.records import Dropped, excerpt
from pipeline.corpus.rows.strict_json import UNREADABLE, Row
from pipeline.corpus.rows.text import RowFault, printable

REMEDIES = {
    "no-schema": "Rename the columns to ones that docs/data.md lists.",
    "no-solution": "Point `data.sources` to traces: problems alone cannot be learnt from.",
    "no-box": "Take traces that put the answer in \\boxed{}, or end a solution with `#### answer`.",
    "no-gold": "Add a column `answer` with the right answer.",
    "wrong-answer": "Check that the answer column belongs to the problems.",
    "multi-turn": "Take traces with one question and one reply.",
    "too-short": "Lower `filter.min_solution_characters` or take traces that reason.",
    "not-english": "Set `filter.english_only` to false if that is meant.",
    "over-long": "Raise `plan.sequence_tokens` or take shorter traces.",
    "over-budget": "Raise `select.token_budget` or set it to null.",
    "overlap-copy": "Check that `decontaminate.protected` does not name the training data.",
    "overlap-edited": "Check that `decontaminate.protected` does not name the training data.",
    "gold-conflict": "Take data whose answers agree, or set `filter.gold_conflict` to majority.",
    "canned": "Raise `filter.canned_problems` or set `filter.flagged` to keep.",
    "unreasoned": "Take traces that reason, or set `filter.flagged` to keep.",
    "held-out-earlier": "Check that `holdout.earlier` does not name the training data.",
    "timeout": "Raise `executor.row_seconds`.",
    "memory": "Raise `executor.worker_gib`.",
}
DEFAULT_REMEDY = "docs/data.md says what each reason means."
NAMED_REASONS = 3


@dataclass
class SourceTally:
    """Counts of one file, or of a shard of it.

    `read` = `kept` + `held_out` + `reserved` + all of `dropped`.
    """

    source: str
    read: int = 0
    kept: int = 0
    held_out: int = 0
    reserved: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    schemas: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    """Conversions that rows went through."""
    flags: Counter[str] = field(default_factory=Counter)
    """Marks of cheating, on rows that stay and on rows that go."""
    rows: int = 0
    """Rows of the file; one row may hold several traces."""
    unreadable: int = 0
    first_unreadable: str = ""
    """`origin: reason (detail)` of the first row that the reader itself refused."""
    examples: dict[str, str] = field(default_factory=dict)
    """Reason → `origin: detail` of the first row that was dropped for it."""

    def note_row(self, row: Row) -> None:
        """Count one row of the file, readable or not."""
        self.rows += 1
        if row.fault is not None and row.fault.reason in UNREADABLE:
            said = f"{row.origin}: {row.fault.reason} ({row.fault.detail})"
            self.unreadable += 1
            self.first_unreadable = self.first_unreadable or printable(said)

    def drop(self, row: Dropped) -> None:
        """Count one dropped row."""
        self.dropped[row.reason] += 1
        self.examples.setdefault(row.reason, f"{row.origin}: {row.detail}")

    def add(self, other: SourceTally) -> None:
        """Take over the counts of what follows in the same file."""
        for name in ("read", "kept", "held_out", "reserved", "rows", "unreadable"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("dropped", "schemas", "notes", "flags"):
            getattr(self, name).update(getattr(other, name))
        self.first_unreadable = self.first_unreadable or other.first_unreadable
        self.examples = other.examples | self.examples

    def require_readable(self, most: float) -> None:
        """Refuse a file of which more than the share `most` cannot be read.

        A single bad row, such as a cut last line, never stops a run unless `most` is 0.

        Raises:
            UserError: naming the first bad row.
        """
        bad = self.unreadable
        if bad > most * self.rows and (bad > 1 or most == 0):
            raise UserError(
                f"{self.first_unreadable}; {bad} of {self.rows} rows of {self.source} cannot be"
                f" read and filter.max_unreadable_share is {most:g}",
                "Mend the file (UTF-8, strict JSON, one object a row) or raise that share.",
            )

    def summary(self) -> dict[str, Any]:
        """The file's entry in funnel.json."""
        return {
            "source": self.source,
            "read": self.read,
            "kept": self.kept,
            "held_out": self.held_out,
            "reserved": self.reserved,
            "dropped": dict(sorted(self.dropped.items())),
            "notes": dict(sorted(self.notes.items())),
            "flags": dict(sorted(self.flags.items())),
            "schema": ", ".join(
                name if len(self.schemas) == 1 else f"{name} ({count})"
                for name, count in self.schemas.most_common()
            ),
        }


def write_tally(path: Path, tally: SourceTally) -> None:
    """Keep the counts of a shard."""
    write_json(path, vars(tally))


def read_tally(path: Path) -> SourceTally:
    """The counts of a shard."""
    value = read_json(path)
    for name in ("dropped", "schemas", "notes", "flags"):
        value[name] = Counter(value[name])
    return SourceTally(**value)


def dropped_row(origin: str, source: str, fault: RowFault, text: str) -> Dropped:
    """A dropped row as it is written; the detail is kept to one line."""
    detail = excerpt(printable(fault.detail))
    return Dropped(origin, source, fault.reason, detail, excerpt(printable(text[:2000])))


def describe_funnel(tallies: Iterable[SourceTally]) -> dict[str, Any]:
    """Totals over all files and each file's own counts."""
    sources = list(tallies)
    whole = SourceTally("all")
    for one in sources:
        whole.add(one)
    totals = whole.summary()
    del totals["source"], totals["schema"]
    return {**totals, "sources": [one.summary() for one in sources]}


def nothing_left(
    read: int,
    dropped: Counter[str],
    listing: str | None = None,
    examples: Mapping[str, str] | None = None,
) -> UserError:
    """The error of a stage that kept no row: its commonest reasons, an example, a remedy.

    Args:
        read: rows that came in.
        dropped: counts of the dropped rows by reason.
        listing: file in which every dropped row is listed, if there is one.
        examples: reason → a row that was dropped for it.
    """
    common = dropped.most_common(NAMED_REASONS)
    said = ", ".join(f"{reason} {count}" for reason, count in common) or "the files hold no rows"
    example = (examples or {}).get(common[0][0]) if common else None
    remedies = (REMEDIES[reason] for reason, _ in common if reason in REMEDIES)
    remedy = next(remedies, DEFAULT_REMEDY)
    listed = f" All are listed in {listing}." if listing else ""
    shown = f"; e.g. {example}" if example else ""
    return UserError(f"none of {read} rows is left ({said}{shown})", remedy + listed)
