"""The figures of `bench.corpus` as tables, and what they mean for a corpus of full size.

Called by `bench.corpus`; reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.corpus_contest import OURS, PEERS, Contest, Contestant
from bench.corpus_ours import StageRun
from bench.corpus_score import Score

MB = 1e6
FULL_ROWS = 9_150_000
FULL_TOKENS = 7_500_000_000
CORES = (1, 2, 32)
BY_TOKENS = ("filter: judge", "filter: settle")
"""Passes whose work grows with the text of the traces; that of the others with the rows."""
MAX_SLOPE = 200
"""Bytes of memory a row may cost."""
MIN_RATIO = 3.0
"""How much faster than the faster peer this project wants to be."""

LEAST_SECONDS = 0.05
"""Shorter steps are not listed."""


ASPECTS: dict[str, Callable[[Contestant], list[float]]] = {
    "whole step": lambda one: one.processor_seconds,
    "decisions alone": lambda one: one.decide_seconds,
}
"""What contestants are compared by, in seconds of processor time."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The stages on a number of rows."""

    rows: int
    bytes: int
    tokens: int
    """Of the kept rows."""
    kept: int
    stages: dict[str, StageRun]


def table(head: str, rows: Iterable[str]) -> str:
    """A Markdown table; numbers, from the second column on, to the right."""
    columns = head.count("|") - 1
    rule = "| --- |" + " ---: |" * (columns - 1)
    return "\n".join([head, rule, *rows])


def steps_of(measured: Measured) -> Iterator[tuple[str, float, bool]]:
    """(stage: step, seconds, whether workers share it)."""
    for stage, one in measured.stages.items():
        for spread, steps in ((True, one.spread), (False, one.serial)):
            for name, seconds in steps.items():
                if seconds >= LEAST_SECONDS:
                    yield f"{stage}: {name}", seconds, spread


def speed_table(measured: Measured, profile: dict[str, float]) -> str:
    """Rows/s and MB/s of every step on one core.

    Args:
        profile: seconds of parts of the first pass, for as many rows.
    """

    def line(name: str, seconds: float) -> str:
        rate, mb = measured.rows / seconds, measured.bytes / MB / seconds
        return f"| {name} | {seconds:.1f} | {rate:,.0f} | {mb:.1f} |"

    steps = [line(name, seconds) for name, seconds, _ in steps_of(measured)]
    parts = [line(f"of which {name}", seconds) for name, seconds in profile.items()]
    total = sum(one.seconds for one in measured.stages.values())
    return table(
        "| step | seconds | rows/s | MB/s of input |",
        [steps[0], *parts, *steps[1:], line("all", total)],
    )


def memory_table(small: Measured, large: Measured) -> str:
    """Peaks at both sizes and what a row costs."""
    lines = []
    for name, one in small.stages.items():
        other = large.stages[name]
        pairs = {
            "": (one.peak_bytes, other.peak_bytes),
            ", worker": (one.run.worker_peak_bytes, other.run.worker_peak_bytes),
        }
        for what, (before, after) in pairs.items():
            if after:
                slope = slope_of(before, after, small, large)
                cells = f"{before / MB:,.0f} | {after / MB:,.0f} | {slope:,.0f}"
                lines.append(f"| {name}{what} | {cells} |")
    head = f"| process | MB at {small.rows:,} rows | MB at {large.rows:,} rows | bytes a row |"
    return table(head, lines)


def slope_of(before: int, after: int, small: Measured, large: Measured) -> float:
    """Bytes of memory for each further row of input."""
    return (after - before) / (large.rows - small.rows)


def worst_slope(small: Measured, large: Measured) -> float:
    """Of all processes of all stages."""
    slopes = []
    for name, one in small.stages.items():
        other = large.stages[name]
        workers = (one.run.worker_peak_bytes, other.run.worker_peak_bytes)
        slopes += [
            slope_of(*pair, small, large) for pair in ((one.peak_bytes, other.peak_bytes), workers)
        ]
    return max(slopes)


def contest_tables(contest: Contest) -> str:
    """Speed and recall of all contestants."""
    rows = len(contest.reached)
    speed, recall = [], []
    kinds = list(contest.scores[OURS].planted)
    for name, one in contest.by_name.items():
        seconds, worked = sum(one.seconds), sum(one.processor_seconds)
        decided = sum(one.decide_seconds)
        ratios = "1 | 1"
        if name != OURS:
            found = [contest.ratio(name, seconds) for seconds in ASPECTS.values()]
            ratios = " | ".join(f"{least:.1f}, {middle:.1f}" for least, middle in found)
        cells = f"{seconds:.1f} | {rows / worked:,.0f} | {contest.bytes / MB / worked:.1f}"
        speed.append(f"| {name} | {cells} | {rows / decided:,.0f} | {ratios} |")
        recall.append(_recall_line(name, contest.scores[name], kinds))
    recall.insert(1, _recall_line("with what it lists for review", contest.listed, kinds))
    head = (
        "| one core | seconds | rows/s | MB/s | decisions/s | slower than ours: least, median "
        "| decisions alone |"
    )
    kinds_head = f"| | {' | '.join(kinds)} | recall | false drops |"
    notes = "; ".join(dict.fromkeys(one.note for one in contest.by_name.values() if one.note))
    kept = f"{rows:,} rows kept by filter, {contest.bytes / MB:,.0f} MB. {notes}."
    return f"{table(head, speed)}\n\n{table(kinds_head, recall)}\n\n{kept}"


def _recall_line(name: str, score: Score, kinds: Sequence[str]) -> str:
    found = " | ".join(f"{score.found.get(kind, 0)}/{score.planted[kind]}" for kind in kinds)
    return f"| {name} | {found} | {score.recall:.1%} | {score.false_drops:,} of {score.clean:,} |"


def verdict(contest: Contest, small: Measured, large: Measured) -> list[str]:
    """Whether the aims are met, one line each."""
    ours = contest.scores[OURS]
    lines = []
    for what, seconds in ASPECTS.items():
        ratios = {name: contest.ratio(name, seconds)[1] for name in PEERS}
        fastest = min(ratios, key=lambda name: ratios[name])
        theirs = contest.scores[fastest]
        lines += [
            f"{_met(ratios[fastest] >= MIN_RATIO)}: {what}, {ratios[fastest]:.2f} times as fast "
            f"as the fastest peer, {fastest} (aim {MIN_RATIO:.0f})",
            f"{_met(ours.recall >= theirs.recall)}: recall {ours.recall:.2%}, that peer "
            f"{theirs.recall:.2%}",
        ]
    slope = worst_slope(small, large)
    met = _met(slope <= MAX_SLOPE)
    return [*lines, f"{met}: {slope:.0f} bytes of memory a row (aim {MAX_SLOPE})"]


def _met(fulfilled: bool) -> str:
    return "met" if fulfilled else "NOT MET"


def estimate(small: Measured, large: Measured) -> list[str]:
    """What the measured slopes say of a corpus of `FULL_ROWS` rows and `FULL_TOKENS` tokens."""
    by_rows = FULL_ROWS / large.rows
    by_tokens = FULL_TOKENS / (large.tokens * large.rows / large.kept)
    lines, parallel, serial = [], 0.0, 0.0
    for name, seconds, spread in steps_of(large):
        factor = by_tokens if name in BY_TOKENS else by_rows
        hours = seconds * factor / 3600
        parallel, serial = parallel + hours * spread, serial + hours * (not spread)
        shared = "cores" if spread else "one"
        lines.append(f"| {name} | {seconds:.1f} | {factor:.1f} | {hours:.2f} | {shared} |")
    head = "| step | measured seconds | times | hours on one core | spread over |"
    walls = [f"{cores} cores {parallel / cores + serial:.1f} h" for cores in CORES]
    disk = max(one.run.disk_bytes for one in large.stages.values()) / large.bytes - 1
    full_bytes = large.bytes * by_tokens
    memory = [
        one.peak_bytes
        + max(0.0, slope_of(small.stages[name].peak_bytes, one.peak_bytes, small, large))
        * (FULL_ROWS - large.rows)
        for name, one in large.stages.items()
    ]
    worker = max(one.run.worker_peak_bytes for one in large.stages.values())
    return [
        f"Estimate for {FULL_ROWS:,} rows, {FULL_TOKENS / 1e9:.1f} B tokens; nothing of it was "
        f"run. Rows grow {by_rows:.1f} times, tokens {by_tokens:.1f} times "
        f"({large.tokens:,} in {large.kept:,} kept rows here).",
        table(head, lines),
        f"Wall time, if passes spread evenly: {_listed(walls)}.",
        f"Input {full_bytes / 1e9:,.0f} GB; on disk at most {disk:.1f} times that besides, "
        f"{full_bytes * disk / 1e9:,.0f} GB. Memory {max(memory) / 1e9:.1f} GB, and "
        f"{worker / 1e9:.1f} GB for each worker.",
    ]


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts)
