"""Where the rows went: one line a stage, one line a reason, and whether it adds up. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pipeline.base.artifacts import Json
from pipeline.summary.evidence import Evidence
from pipeline.summary.markdown import percent, table, whole


@dataclass(frozen=True)
class Passage:
    """Rows through one stage."""

    stage: str
    rows_in: int
    rows_out: int
    held_out: int
    """For the panel or the reserve."""
    dropped: dict[str, int]

    @property
    def unaccounted(self) -> int:
        """Rows that neither came out nor have a reason; 0 unless something is wrong."""
        return self.rows_in - self.rows_out - self.held_out - sum(self.dropped.values())


def passages(evidence: Evidence) -> list[Passage]:
    """The stages that have run, in the order of the flow."""
    counted: list[tuple[str, Json]] = [
        ("filter", evidence.filtered),
        ("decontaminate", evidence.decontaminated),
        ("select", evidence.selected),
    ]
    found = [
        Passage(
            stage, r["read"], r["kept"], r.get("held_out", 0) + r.get("reserved", 0), r["dropped"]
        )
        for stage, r in counted
        if r is not None
    ]
    manifest = evidence.manifest
    if manifest is not None:
        kept, dropped = manifest["documents"], manifest["dropped"]
        found.append(Passage("tokenize", kept + sum(dropped.values()), kept, 0, dropped))
    return found


def faults(found: list[Passage]) -> list[str]:
    """Sentences about rows that are lost inside a stage or between two; none if all is well."""
    sentences = [
        f"{one.stage}: {one.unaccounted:+,} rows are unaccounted for."
        for one in found
        if one.unaccounted
    ]
    for before, after in pairwise(found):
        if before.rows_out != after.rows_in:
            kept, read = whole(before.rows_out), whole(after.rows_in)
            sentences.append(f"{before.stage} kept {kept} rows, {after.stage} read {read}.")
    return sentences


def funnel_section(evidence: Evidence) -> list[str]:
    """Lines of the section on rows."""
    found = passages(evidence)
    lines = ["## From rows to training data", ""]
    if not found:
        return [*lines, "No data stage has run.", ""]
    lines += table(
        ("stage", "rows in", "dropped", "held out", "rows out"),
        [
            (
                one.stage,
                whole(one.rows_in),
                whole(sum(one.dropped.values())),
                whole(one.held_out),
                whole(one.rows_out),
            )
            for one in found
        ],
        "lrrrr",
    )
    wrong = faults(found)
    lines += [f"**Does not add up:** {sentence}" for sentence in wrong] or [
        "Every row is accounted for: rows in = dropped + held out + rows out, at each stage."
    ]
    reasons = [
        (one.stage, f"`{reason}`", whole(count))
        for one in found
        for reason, count in sorted(one.dropped.items(), key=lambda item: (-item[1], item[0]))
        if count
    ]
    if reasons:
        lines += ["", *table(("stage", "reason for dropping", "rows"), reasons, "llr")]
    else:
        lines += ["", "No row was dropped.", ""]
    return lines


def tokens_section(evidence: Evidence) -> list[str]:
    """Lines of the section on tokens."""
    manifest, train = evidence.manifest, evidence.train
    if manifest is None:
        return []
    share = manifest["trained_tokens"] / manifest["tokens"] if manifest["tokens"] else 0.0
    trained = f"{whole(manifest['trained_tokens'])} ({percent(share)})"
    sequences = f"{whole(manifest['sequences'])} of {whole(manifest['sequence_tokens'])} tokens"
    rows = [
        ("documents", whole(manifest["documents"])),
        ("tokens", whole(manifest["tokens"])),
        ("of these trained (reply and end token)", trained),
        ("packed sequences", sequences),
        ("fill", percent(manifest["fill"])),
    ]
    if train is not None:
        rows.append(("tokens seen in training", whole(train["tokens"])))
        rows.append(("passes over the data", f"{train['passes']:.2f}"))
    return ["## Tokens", "", *table(("", ""), rows, "lr")]
