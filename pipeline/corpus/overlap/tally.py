"""Counts and examples of what was found, set by set, for report.json.

Called by findings.py and report.py; reads and writes nothing. Everything counts different
training problems; a problem that resembles several protected ones of a set counts once in
it, under its strongest class there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.base.artifacts import Json
from pipeline.corpus.overlap.classes import CLASSES, Verdict
from pipeline.corpus.overlap.judgement import Pair
from pipeline.corpus.overlap.protected_index import ProtectedIndex
from pipeline.corpus.overlap.search import Suspicion

EXAMPLES = 3
"""Pairs of each class that a set's section shows."""
EXAMPLE_CHARACTERS = 600

LIMITS = {
    "lcs": (0.5, 0.6, 0.7, 0.8, 0.9),
    "ngram+lcs": (0.0, 0.5, 0.6, 0.7, 0.8),
    "masked": (0.6, 0.7, 0.8, 0.9, 1.0),
    "cosine": (0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
}
"""Score → limits at which the report says how many problems would be dropped."""


@dataclass
class SetTally:
    """What was found in one set."""

    classes: Counter[str] = field(default_factory=Counter)
    methods: Counter[str] = field(default_factory=Counter)
    sweep: Counter[tuple[str, float]] = field(default_factory=Counter)
    """(score, limit) → problems that reach it with some problem of the set."""
    protected: set[int] = field(default_factory=set)
    """Protected problems that some training problem repeats or resembles."""
    examples: list[Json] = field(default_factory=list)

    def add_example(
        self, one: Suspicion, pair: Pair, verdict: Verdict, place: str, text: str
    ) -> None:
        """Keep a pair to show, if there are not enough of its class."""
        if sum(row["class"] == verdict.name for row in self.examples) < EXAMPLES:
            self.examples.append(
                {
                    "class": verdict.name,
                    "methods": list(verdict.methods),
                    "lcs": round(pair.scores.lcs, 3),
                    "masked": round(pair.scores.masked, 3),
                    "cosine": pair.cosine,
                    "place": place,
                    "training": one.problem[:EXAMPLE_CHARACTERS],
                    "protected": text[:EXAMPLE_CHARACTERS],
                }
            )


@dataclass
class Tally:
    """What was found in every set."""

    sets: dict[str, SetTally] = field(default_factory=dict)
    classes: Counter[str] = field(default_factory=Counter)
    """Strongest class over all sets → training problems."""
    excused: int = 0
    """Suspects against whom only boilerplate or a genre spoke."""

    def of(self, name: str) -> SetTally:
        """The tally of one set."""
        return self.sets.setdefault(name, SetTally())

    def note(
        self, index: ProtectedIndex, one: Suspicion, proved: Sequence[tuple[Pair, Verdict]]
    ) -> None:
        """Count one suspect; `proved` is ordered, strongest class first."""
        reached = {
            (index.items[pair.item].source, *limit)
            for pair in one.pairs
            for limit in _reached(pair)
        }
        for name, score, limit in reached:
            self.of(name).sweep[score, limit] += 1
        if not proved:
            self.excused += 1
            return
        self.classes[proved[0][1].name] += 1
        seen: set[str] = set()
        for pair, verdict in proved:
            item = index.items[pair.item]
            mine = self.of(item.source)
            mine.protected.add(pair.item)
            if item.source not in seen:
                seen.add(item.source)
                mine.classes[verdict.name] += 1
                mine.methods.update(verdict.methods)
                mine.add_example(one, pair, verdict, item.origin, item.problem)


def _reached(pair: Pair) -> list[tuple[str, float]]:
    values = {
        "lcs": pair.scores.lcs,
        "ngram+lcs": pair.scores.lcs if pair.runs else -1.0,
        "masked": pair.scores.masked,
        "cosine": pair.cosine if pair.cosine is not None else -1.0,
    }
    return [
        (score, limit)
        for score, limits in LIMITS.items()
        for limit in limits
        if values[score] >= limit
    ]


def ordered(counts: Counter[str]) -> dict[str, int]:
    """Class → count, every class, strongest first."""
    return {name: counts[name] for name in CLASSES}
