"""Everything protected, prepared for the judgement: texts, tokens, n-grams.

Called by protected_runs.py, judgement.py, boilerplate.py and report.py; reads and writes
nothing. Wording that `MIN_WORDING_PROBLEMS` different problems of one set share ("where m
and n are relatively prime positive integers, find …") is no evidence: a copy is known by
what only its original says. Two versions of one problem do not count as different.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pipeline.base.records import Problem
from pipeline.corpus.overlap.similarity import Alphabet, Shape, shape_of
from pipeline.corpus.overlap.tokens import tokens_of

MIN_CONTAINED_TOKENS = 4
"""Words and operators; shorter problems ("simplify sqrt 50") are part of too many others."""
MIN_WORDING_PROBLEMS = 3
"""Different problems of one protected set that share a text before it is mere wording."""
SAME_PROBLEM_SHARE = 0.5
"""Common words, of all words of two problems, from which they are versions of one."""


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
    ngrams: dict[str, list[int]] = field(default_factory=dict)
    """Runs of `size` words that are evidence, in characters of the alphabet."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Number of each of these runs, by which suspects.jsonl names it."""

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
    places = _places([shape.words for shape in index.shapes], size)
    index.ngrams = {run: held for run, held in places.items() if not is_wording(index, held)}
    index.numbers = {run: number for number, run in enumerate(index.ngrams)}
    return index


def _places(texts: Sequence[str], size: int) -> dict[str, list[int]]:
    """Run of `size` characters → texts that hold it, each once."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        for start in range(len(text) - size + 1):
            held = places[text[start : start + size]]
            if not held or held[-1] != number:
                held.append(number)
    return dict(places)


def is_wording(index: ProtectedIndex, held: list[int]) -> bool:
    """Whether different problems of one set, enough of them, hold a text.

    Args:
        held: the problems that hold it, ascending.
    """
    if len(held) < MIN_WORDING_PROBLEMS:
        return False
    different: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for item in held:
        words = index.shapes[item].word_set
        known = different[index.items[item].source]
        if not any(_same(words, other) for other in known):
            known.append(words)
            if len(known) >= MIN_WORDING_PROBLEMS:
                return True
    return False


def _same(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= SAME_PROBLEM_SHARE * len(one | other)
