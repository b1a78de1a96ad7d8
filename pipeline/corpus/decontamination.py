"""The sets that training must not repeat, and the report on what did.

Called by `python -m pipeline.decontaminate`. The panel is always protected; other
sets are the files of `decontaminate.protected` as data.json lists them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.base.params import DecontaminateParams
from pipeline.base.progress import Progress
from pipeline.base.records import Dropped, Problem, Trace, excerpt, read_rows
from pipeline.corpus.overlap import (
    MIN_BOILERPLATE_PROBLEMS,
    MIN_CONTAINED_TOKENS,
    Boilerplate,
    Protected,
    find_hit,
)
from pipeline.corpus.panels import read_questions, verified
from pipeline.corpus.sources import source_names

PANEL = Path("work/filter/panel.jsonl")
LISTED_BOILERPLATE = 20


@dataclass
class ProtectedSet:
    """One set of protected problems."""

    name: str
    problems: list[Problem]
    """Their `source` is the set's name."""
    unreadable: int
    """Rows of the file that hold no problem and therefore protect nothing."""
    hits: int = 0
    """Dropped training rows that share the deciding text with it; sets may overlap."""


def load_sets(entries: list[dict[str, Any]]) -> list[ProtectedSet]:
    """The panel and every protected file.

    Raises:
        UserError: a file has changed, is missing or holds no problem.
    """
    panel = [replace(problem, source="panel") for problem in read_rows(Problem, PANEL)]
    sets = [ProtectedSet("panel", panel, 0)]
    paths = [verified(entry) for entry in entries]
    for path, name in zip(paths, source_names(paths) if paths else [], strict=True):
        name = "panel (protected file)" if name == "panel" else name
        found = read_questions(path, name, need_gold=False)
        repeated = found.dropped["duplicate-problem"]
        sets.append(ProtectedSet(name, found.problems, found.dropped.total() - repeated))
    return sets


def protect(sets: list[ProtectedSet], ngram_words: int) -> Protected:
    """The index of all sets."""
    index = Protected(ngram_words)
    for one in sets:
        for problem in one.problems:
            index.add(problem)
    return index


def clean(
    traces: Iterable[Trace],
    protected: Protected,
    boilerplate: Boilerplate,
    sets: list[ProtectedSet],
    dropped: list[Dropped],
    progress: Progress,
) -> Iterator[Trace]:
    """Yield the traces that repeat nothing protected; the others are added to `dropped`."""
    by_name = {one.name: one for one in sets}
    for trace in traces:
        hit = find_hit(protected, boilerplate, trace.problem)
        if hit is None:
            yield trace
        else:
            for name in hit.sets:
                by_name[name].hits += 1
            row = (hit.reason, hit.detail, excerpt(trace.problem))
            dropped.append(Dropped(trace.origin, trace.source, *row))
        progress.add(1)


def describe(
    kept: int,
    dropped: list[Dropped],
    sets: list[ProtectedSet],
    boilerplate: Boilerplate,
    settings: DecontaminateParams,
) -> dict[str, Any]:
    """work/decontaminate/report.json."""
    return {
        "read": kept + len(dropped),
        "kept": kept,
        "dropped": dict(sorted(Counter(row.reason for row in dropped).items())),
        "sets": [
            {
                "name": one.name,
                "problems": len(one.problems),
                "unreadable": one.unreadable,
                "hits": one.hits,
            }
            for one in sets
        ],
        "ngram_words": settings.ngram_words,
        "boilerplate_share": settings.boilerplate_share,
        "boilerplate_problems": MIN_BOILERPLATE_PROBLEMS,
        "contained_tokens": MIN_CONTAINED_TOKENS,
        "boilerplate": [
            {"words": words, "problems": count}
            for words, count in boilerplate.excused()[:LISTED_BOILERPLATE]
        ],
    }
