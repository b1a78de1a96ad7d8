"""Compares suspects with protected problems and notes what speaks against each pair.

Called by search.py and bench; reads and writes nothing. What counts is decided later
(findings.py), when it is known which texts so many training problems share that they
prove nothing; a pair that no rule could call contaminated is left out here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace

from pipeline.base.artifacts import Json
from pipeline.corpus.overlap.classes import Evidence, classify, least_scores
from pipeline.corpus.overlap.protected_index import ProtectedIndex
from pipeline.corpus.overlap.similarity import (
    Scores,
    Shape,
    compare,
    shape_of,
    with_run,
)
from pipeline.corpus.overlap.tokens import tokens_of


@dataclass(frozen=True, slots=True)
class Pair:
    """A training problem beside a protected one, boilerplate not yet left out."""

    item: int
    """Index of the protected problem."""
    exact: bool
    contained: bool
    runs: list[int]
    """Numbers of the shared n-grams."""
    cosine: float | None
    nearest: bool
    """The cosine alone proves a paraphrase."""
    scores: Scores

    def to_json(self) -> Json:
        """The pair as a list, short enough for millions."""
        found = [self.item, self.exact, self.contained, self.runs, self.cosine, self.nearest]
        return [*found, astuple(self.scores)]

    @classmethod
    def from_json(cls, value: Json) -> Pair:
        """The pair that `to_json` wrote."""
        item, exact, contained, runs, cosine, nearest, scores = value
        return cls(item, exact, contained, runs, cosine, nearest, Scores(*scores))

    def evidence(self, excused: frozenset[int] = frozenset(), *, short: bool = True) -> Evidence:
        """What counts against the pair.

        Args:
            excused: numbers of n-grams that are boilerplate.
            short: whether being contained is evidence; not if many training problems
                contain the same short text.
        """
        shared = bool(self.runs) and not excused.issuperset(self.runs)
        near = self.cosine is not None
        contained = self.contained and short
        return Evidence(self.scores, self.exact, contained, shared, near, self.nearest)


class Judge:
    """Makes pairs.

    Args:
        index: what is protected.
        paraphrase_cosine: a neighbour at least so near is a paraphrase.
    """

    def __init__(self, index: ProtectedIndex, paraphrase_cosine: float = 1.0) -> None:
        self.index = index
        self.paraphrase_cosine = paraphrase_cosine
        self.least = least_scores(index.size)
        self.any = replace(self.least, lcs=0.0)

    def pairs(
        self, problem: str, items: Iterable[int], cosines: Mapping[int, float] | None = None
    ) -> list[Pair]:
        """The pairs of a problem that some rule might call contaminated.

        Args:
            items: protected problems to compare it with; an equal text is found anyway.
            cosines: protected problem → cosine, for neighbours.
        """
        shape = shape_of(tokens_of(problem), self.index.alphabet)
        near = cosines or {}
        wanted = dict.fromkeys([*self.index.by_text.get(shape.text, ()), *items, *near])
        pairs = (self._pair(shape, item, near.get(item)) for item in wanted)
        return [one for one in pairs if one is not None]

    def _pair(self, shape: Shape, item: int, cosine: float | None) -> Pair | None:
        protected = self.index.shapes[item]
        exact = bool(shape.tokens) and protected.text == shape.text
        contained = not exact and self.index.is_short(item) and protected.tokens in shape.tokens
        certain = exact or contained or cosine is not None
        scores = compare(protected, shape, self.any if certain else self.least)
        if scores is None:
            return None
        runs = self._runs(shape, item) if scores.run >= self.index.size else []
        nearest = cosine is not None and cosine >= self.paraphrase_cosine
        pair = Pair(item, exact, contained, runs, cosine, nearest, scores)
        if classify(pair.evidence()) is None:
            return None
        return pair if scores.run else replace(pair, scores=with_run(scores, protected, shape))

    def _runs(self, shape: Shape, item: int) -> list[int]:
        """Numbers of the n-grams that a problem shares with a protected one."""
        size, words, held = self.index.size, shape.words, self.index.ngrams
        runs = dict.fromkeys(words[start : start + size] for start in range(len(words) - size + 1))
        return [self.index.numbers[run] for run in runs if item in held.get(run, ())]
