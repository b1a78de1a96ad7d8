"""Which shared texts prove nothing, because so many training problems share them.

Called by findings.py; reads and writes nothing. A text is counted once for each different
training problem. It is boilerplate when it occurs in more than
`decontaminate.boilerplate_share` of them and in at least `MIN_BOILERPLATE_PROBLEMS`: in a
small set a single copy would exceed the share and excuse itself. So it is when as many problems
share it that resemble the protected one in nothing else, and they are the most of all that
do: a phrase of the trade, however large the corpus. An equal whole text always is evidence.

A whole wording may be common too: thousands of sums that differ in their numbers are a
genre, not edits of a protected sum. Wordings of fewer than `SHORT_WORDING` words count as a
genre from `MIN_BOILERPLATE_PROBLEMS` problems on, longer ones from the share on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.corpus.overlap.classes import Verdict, classify
from pipeline.corpus.overlap.judgement import Pair
from pipeline.corpus.overlap.protected_index import ProtectedIndex

MIN_BOILERPLATE_PROBLEMS = 10
"""Different training problems that share a text before it can count as boilerplate."""
SHORT_WORDING = 12
"""Words, numbers and names left out, of a protected problem with a plain wording."""


@dataclass
class Boilerplate:
    """Counts over all different training problems.

    Args:
        index: what is protected.
        share: share of the training problems from which a text is boilerplate.
        problems: different training problems in all.
    """

    index: ProtectedIndex
    share: float
    problems: int
    runs: Counter[int] = field(default_factory=Counter)
    """Number of an n-gram → training problems that share it."""
    weak: Counter[int] = field(default_factory=Counter)
    """The same, of problems that the n-gram would only put on the list for review."""
    contained: Counter[int] = field(default_factory=Counter)
    """Protected problem → training problems inside which it stands."""
    worded: Counter[int] = field(default_factory=Counter)
    """Protected problem → training problems that resemble it by their wording."""

    def note(self, pairs: Iterable[Pair]) -> None:
        """Count one training problem; each must be noted once."""
        listed = list(pairs)
        self.runs.update({run for pair in listed for run in pair.runs})
        self.weak.update({run for pair in listed if _is_weak(pair) for run in pair.runs})
        self.contained.update(pair.item for pair in listed if pair.contained)
        self.worded.update(pair.item for pair in listed if not pair.exact)

    def _common(self, count: int) -> bool:
        return count >= MIN_BOILERPLATE_PROBLEMS and count > self.share * self.problems

    def excused_runs(self) -> frozenset[int]:
        """Numbers of the n-grams that are no evidence."""
        return frozenset(
            run
            for run, count in self.runs.items()
            if self._common(count)
            or (self.weak[run] >= MIN_BOILERPLATE_PROBLEMS and 2 * self.weak[run] > count)
        )

    def genres(self) -> frozenset[int]:
        """Protected problems that too many training problems resemble by wording."""
        return frozenset(
            item
            for item, count in self.worded.items()
            if self._common(count)
            or (
                count >= MIN_BOILERPLATE_PROBLEMS
                and len(self.index.shapes[item].wording) < SHORT_WORDING
            )
        )

    def excused_contained(self) -> frozenset[int]:
        """Short protected problems that stand inside too many training problems."""
        return frozenset(item for item, count in self.contained.items() if self._common(count))


def _is_weak(pair: Pair) -> bool:
    verdict = classify(pair.evidence())
    return verdict is not None and verdict.name == "review"


@dataclass(frozen=True, slots=True)
class Excuses:
    """What proves nothing in this corpus."""

    runs: frozenset[int]
    contained: frozenset[int]
    genres: frozenset[int]

    @classmethod
    def of(cls, counts: Boilerplate) -> Excuses:
        """The excuses that follow from the counts."""
        return cls(counts.excused_runs(), counts.excused_contained(), counts.genres())

    def verdict(self, pair: Pair) -> Verdict | None:
        """The class of a pair with everything excused left out."""
        evidence = pair.evidence(self.runs, short=pair.item not in self.contained)
        return classify(evidence, genre=pair.item in self.genres)
