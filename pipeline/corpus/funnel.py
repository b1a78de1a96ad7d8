"""What became of every row: counts by file and reason, and what to say if none is left.

Called by intake.py, `python -m pipeline.filter`, `.decontaminate` and `.select`; it
shapes work/filter/funnel.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pipeline.base.errors import UserError
from pipeline.base.records import Dropped, excerpt
from pipeline.corpus.strict_json import UNREADABLE, Row
from pipeline.corpus.text import RowFault, printable

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
    "overlap-ngram": "Check that `decontaminate.protected` does not name the training data.",
    "overlap-exact": "Check that `decontaminate.protected` does not name the training data.",
}
DEFAULT_REMEDY = "docs/data.md says what each reason means."
NAMED_REASONS = 3


@dataclass
class SourceTally:
    """Counts of one file; `read` = `kept` + `held_out` + all of `dropped`."""

    source: str
    read: int = 0
    kept: int = 0
    held_out: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    schemas: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    """Rows of the file; one row may hold several traces."""
    unreadable: list[str] = field(default_factory=list)
    """`origin: reason (detail)` of rows that the reader itself refused."""

    def note_row(self, row: Row) -> None:
        """Count one row of the file, readable or not."""
        self.rows += 1
        if row.fault is not None and row.fault.reason in UNREADABLE:
            said = f"{row.origin}: {row.fault.reason} ({row.fault.detail})"
            self.unreadable.append(printable(said))

    def require_readable(self, most: float) -> None:
        """Refuse a file of which more than the share `most` cannot be read.

        A single bad row, such as a cut last line, never stops a run unless `most` is 0.

        Raises:
            UserError: naming the first bad row.
        """
        bad = len(self.unreadable)
        if bad > most * self.rows and (bad > 1 or most == 0):
            raise UserError(
                f"{self.unreadable[0]}; {bad} of {self.rows} rows of {self.source} cannot be read"
                f" and filter.max_unreadable_share is {most:g}",
                "Mend the file (UTF-8, strict JSON, one object a row) or raise that share.",
            )

    def summary(self) -> dict[str, Any]:
        """The file's entry in funnel.json."""
        return {
            "source": self.source,
            "read": self.read,
            "kept": self.kept,
            "held_out": self.held_out,
            "dropped": dict(sorted(self.dropped.items())),
            "schema": ", ".join(
                name if len(self.schemas) == 1 else f"{name} ({count})"
                for name, count in self.schemas.most_common()
            ),
        }


def dropped_row(origin: str, source: str, fault: RowFault, text: str) -> Dropped:
    """A dropped row as it is written; the detail is kept to one line."""
    detail = excerpt(printable(fault.detail))
    return Dropped(origin, source, fault.reason, detail, excerpt(printable(text[:2000])))


def describe_funnel(tallies: Iterable[SourceTally]) -> dict[str, Any]:
    """Totals over all files and each file's own counts."""
    sources = list(tallies)
    dropped: Counter[str] = Counter()
    for one in sources:
        dropped.update(one.dropped)
    return {
        "read": sum(one.read for one in sources),
        "kept": sum(one.kept for one in sources),
        "held_out": sum(one.held_out for one in sources),
        "dropped": dict(sorted(dropped.items())),
        "sources": [one.summary() for one in sources],
    }


def nothing_left(
    read: int, dropped: list[Dropped] | Counter[str], listing: str | None = None
) -> UserError:
    """The error of a stage that kept no row: its commonest reasons, an example, a remedy.

    Args:
        read: rows that came in.
        dropped: the dropped rows, or their counts by reason.
        listing: file in which every dropped row is listed, if there is one.
    """
    counts = dropped if isinstance(dropped, Counter) else Counter(one.reason for one in dropped)
    common = counts.most_common(NAMED_REASONS)
    said = ", ".join(f"{reason} {count}" for reason, count in common) or "the files hold no rows"
    example = ""
    if isinstance(dropped, list) and common:
        first = next(one for one in dropped if one.reason == common[0][0])
        example = f"; e.g. {first.origin}: {first.detail}"
    remedies = (REMEDIES[reason] for reason, _ in common if reason in REMEDIES)
    remedy = next(remedies, DEFAULT_REMEDY)
    listed = f" All are listed in {listing}." if listing else ""
    return UserError(f"none of {read} rows is left ({said}{example})", remedy + listed)
