"""Everything protected, prepared for the search: texts, n-grams, wording, short problems.

Called by judgement.py, screen.py and report.py; reads and writes nothing. Wording that
`MIN_WORDING_PROBLEMS` different problems of one set share ("where m and n are relatively
prime positive integers, find …") is no evidence: a copy is known by what only its original
says. Two versions of one problem do not count as different.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pipeline.base.records import Problem
from pipeline.corpus.overlap.similarity import Alphabet, Shape, shape_of
from pipeline.corpus.overlap.tokens import MASK, masked_words, ngrams, tokens_of

MIN_CONTAINED_TOKENS = 4
"""Words and operators; shorter problems ("simplify sqrt 50") are part of too many others."""
MIN_WORDING_PROBLEMS = 3
"""Different problems of one protected set that share a text before it is mere wording."""
SAME_PROBLEM_SHARE = 0.5
"""Common words, of all words of two problems, from which they are versions of one."""
SEED_WORDS = 10
"""Words of an exact run that makes a pair worth comparing."""
MASKED_WORDS = 5
"""Words of a masked run that speaks for a pair to be compared."""
LEAST_MASKED, MASKED_SHARE = 2, 0.2
"""Masked runs that a pair must share: so many, and this share of the shorter one's."""
COMMON_MASKED = 8
"""A masked run in more protected problems says nothing about any of them."""

Gram = tuple[str, ...]


@dataclass
class ProtectedIndex:
    """All protected problems.

    Args:
        size: words of an n-gram that counts as evidence.
    """

    size: int
    items: list[Problem] = field(default_factory=list)
    """Protected problems; a source is the name of the set. Pairs name them by index."""
    shapes: list[Shape] = field(default_factory=list)
    alphabet: Alphabet = field(default_factory=Alphabet)
    by_text: dict[str, list[int]] = field(default_factory=dict)
    """Whole texts, long ones too, so that a copy is called a copy."""
    ngrams: dict[Gram, list[int]] = field(default_factory=dict)
    """Runs of `size` words that are evidence."""
    numbers: dict[Gram, int] = field(default_factory=dict)
    """Number of each of these runs, by which suspects.jsonl names it."""
    seeds: dict[Gram, list[int]] = field(default_factory=dict)
    """Exact runs that make a pair worth comparing."""
    masked: dict[Gram, list[int]] = field(default_factory=dict)
    """Masked runs that speak for a pair to be compared."""
    anchors: dict[Gram, list[int]] = field(default_factory=dict)
    """The rarest run of `MIN_CONTAINED_TOKENS` tokens of every short problem."""
    masked_runs: list[int] = field(default_factory=list)
    """How many of these a protected problem has, by index."""

    @property
    def seed_size(self) -> int:
        """Words of a seed."""
        return min(SEED_WORDS, self.size)

    def is_short(self, item: int) -> bool:
        """Whether a problem has no n-gram, so that a longer one may contain it whole."""
        shape = self.shapes[item]
        return len(shape.tokens) >= MIN_CONTAINED_TOKENS and len(shape.words) < self.size


def build_index(items: Iterable[Problem], size: int) -> ProtectedIndex:
    """The index of protected problems, the same for the same problems in the same order."""
    index = ProtectedIndex(size)
    for item in items:
        tokens = tokens_of(item.problem)
        shape = shape_of(tokens, index.alphabet, learn=True)
        if shape.text:
            index.by_text.setdefault(shape.text, []).append(len(index.items))
        index.items.append(item)
        index.shapes.append(shape)
    _index_runs(index)
    _index_masked(index)
    _index_anchors(index)
    return index


def _places(runs: Iterator[tuple[Gram, int]]) -> dict[Gram, list[int]]:
    """Run → problems that hold it, each once."""
    places: defaultdict[Gram, list[int]] = defaultdict(list)
    for run, item in runs:
        held = places[run]
        if not held or held[-1] != item:
            held.append(item)
    return places


def _index_runs(index: ProtectedIndex) -> None:
    words = [shape.word_list for shape in index.shapes]
    numbered = list(enumerate(words))
    places = _places((run, i) for i, one in numbered for run in ngrams(one, index.size))
    index.ngrams = {run: held for run, held in places.items() if not _is_wording(index, held)}
    index.numbers = {run: number for number, run in enumerate(index.ngrams)}
    size = index.seed_size
    seeds = _places((run, i) for i, one in numbered for run in ngrams(one, size))
    certain = {run[:size] for run in index.ngrams}
    index.seeds = {
        run: held for run, held in seeds.items() if run in certain or not _is_wording(index, held)
    }


def _is_wording(index: ProtectedIndex, held: list[int]) -> bool:
    """Whether different problems of one set, enough of them, hold a text."""
    if len(held) < MIN_WORDING_PROBLEMS:
        return False
    different: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for item in held:
        words = frozenset(index.shapes[item].word_list)
        known = different[index.items[item].source]
        if not any(_same(words, other) for other in known):
            known.append(words)
            if len(known) >= MIN_WORDING_PROBLEMS:
                return True
    return False


def _same(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= SAME_PROBLEM_SHARE * len(one | other)


def _index_masked(index: ProtectedIndex) -> None:
    masked = [masked_words(shape.word_list) for shape in index.shapes]
    runs = ((run, i) for i, one in enumerate(masked) for run in ngrams(one, MASKED_WORDS))
    places = _places((run, i) for run, i in runs if run.count(MASK) <= MASKED_WORDS // 2)
    index.masked = {run: held for run, held in places.items() if len(held) <= COMMON_MASKED}
    counts = Counter(item for held in index.masked.values() for item in held)
    index.masked_runs = [counts[item] for item in range(len(index.items))]


def _index_anchors(index: ProtectedIndex) -> None:
    tokens = [shape.text.split(" ") for shape in index.shapes]
    size = MIN_CONTAINED_TOKENS
    counts = Counter(run for one in tokens for run in ngrams(one, size))
    for item, one in enumerate(tokens):
        if index.is_short(item):
            rarest = min(ngrams(one, size), key=lambda run: (counts[run], run))
            index.anchors.setdefault(rarest, []).append(item)
