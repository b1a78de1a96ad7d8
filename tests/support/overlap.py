"""Protected problems and pairs for the tests of decontamination."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.base.records import Problem, problem_id
from pipeline.corpus.overlap.boilerplate import Boilerplate, Excuses
from pipeline.corpus.overlap.classes import CLASSES, Verdict
from pipeline.corpus.overlap.judgement import Judge, Pair
from pipeline.corpus.overlap.protected_index import ProtectedIndex, build_index
from pipeline.corpus.overlap.screen import Screen

LONG = (
    "A gardener plants tulips in 7 rows so that every row after the first has 3 more "
    "flowers than the row before it. How many tulips are there?"
)


def protected(problem: str, source: str = "panel", place: int = 1) -> Problem:
    """A protected problem."""
    return Problem(problem_id(problem), problem, "", source, f"{source}:{place}")


def index_of(*problems: str, size: int = 13) -> ProtectedIndex:
    """The index of one set."""
    return build_index([protected(one, place=i) for i, one in enumerate(problems)], size)


def pairs_of(index: ProtectedIndex, problem: str) -> list[Pair]:
    """What the search finds against a problem."""
    return [pair for pairs in all_pairs(index, [problem]) for pair in pairs]


def all_pairs(index: ProtectedIndex, problems: Sequence[str]) -> list[list[Pair]]:
    """What the search finds against each suspect among some problems."""
    judge = Judge(index)
    return [judge.pairs(one.problem, one.items) for one in Screen(index).suspects(problems)]


def verdict_of(
    index: ProtectedIndex, problem: str, corpus: Sequence[str] = (), share: float = 0.01
) -> Verdict | None:
    """The strongest verdict on a problem of a corpus of different problems."""
    counts = Boilerplate(index, share, max(1, len(corpus)))
    for pairs in all_pairs(index, corpus or [""]):
        counts.note(pairs)
    excuses = Excuses.of(counts)
    found = [excuses.verdict(pair) for pair in pairs_of(index, problem)]
    named = [verdict for verdict in found if verdict is not None]
    return min(named, key=lambda one: CLASSES.index(one.name), default=None)
