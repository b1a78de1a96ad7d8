r"""How alike are a training problem and a protected one? Scores from 0 to 1.

Called by protected_index.py and judgement.py; reads and writes nothing. Tokens become
characters of one alphabet, so that rapidfuzz's bit-parallel algorithm compares them.

The ratio of two sequences is 2·L / (n + m), L the length of their longest common
subsequence (the ratio of Python's difflib, the Dice coefficient). Qwen2.5-Math (arXiv
2409.12122, §2) drops what shares a 13-gram and has such a ratio above 0.6; it leaves the
denominator open. It is taken three times here:

- `lcs`: over words, numbers and operators as they stand;
- `structure`: numbers and one-letter names each as one placeholder: 3x+2 is 5y+7;
- `masked`: words only, every run of numbers and names as one placeholder: what is left
  is the wording, however long the formulas between are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from rapidfuzz.distance import LCSseq

from pipeline.corpus.overlap.shared_runs import longest_run, shares_run
from pipeline.corpus.overlap.tokens import (
    GENERIC,
    OPERATORS,
    is_number,
    words_of,
)

NAME = "@"
"""Stands for a one-letter name in a structure."""
MIN_CONTENT_LETTERS = 4
"""Shorter words are names (ABC, xy) more often than content."""

_FIRST, _SURROGATES, _AFTER = 0x100, 0xD800, 0xE000
_MASK, _NAME, _UNKNOWN = "\x01", "\x02", "\U0010ffff"
_OPERATORS = "".join(sorted(OPERATORS))
_REPEATED = re.compile("\x01{2,}")

Kind = tuple[str, str, str]
"""Character of the token, of its place in a structure, and in a wording: that of the mask
for numbers and names, empty for operators."""


@dataclass
class Alphabet:
    """One character a token; tokens of training problems alone share one that never matches."""

    kinds: dict[str, Kind] = field(
        default_factory=lambda: {one: (one, one, "") for one in OPERATORS}
    )
    """Operators stand for themselves."""

    def learn(self, tokens: Sequence[str]) -> None:
        """Give every new token a character."""
        for token in tokens:
            if token not in self.kinds:
                place = _FIRST + len(self.kinds) - len(OPERATORS)
                place += (_AFTER - _SURROGATES) * (place >= _SURROGATES)
                self.kinds[token] = _kind(token, chr(place))

    def tokens(self) -> dict[str, str]:
        """Character → its token."""
        return {kind[0]: token for token, kind in self.kinds.items()}

    def spell(self, tokens: Sequence[str]) -> list[Kind]:
        """The characters of each token."""
        get = self.kinds.get
        return [get(token) or _kind(token, _UNKNOWN) for token in tokens]


def _kind(token: str, character: str) -> Kind:
    if is_number(token):
        return character, _MASK, _MASK
    if len(token) == 1:
        return character, _NAME, _MASK
    return character, character, character


@dataclass(frozen=True)
class Shape:
    """A problem as far as it is compared; one character a token.

    Most pairs are told apart by a part of it; the rest is worked out when it is asked for.
    """

    token_list: list[str]
    kinds: list[Kind]
    tokens: str
    masked: str

    @cached_property
    def text(self) -> str:
        """Its tokens joined by blanks: equal texts are equal problems."""
        return " ".join(self.token_list)

    @cached_property
    def words(self) -> str:
        """Its tokens without operators."""
        words = self.tokens
        for character in _OPERATORS:
            words = words.replace(character, "")
        return words

    @cached_property
    def wording(self) -> str:
        """The masked text without its placeholders."""
        return self.masked.replace(_MASK, "")

    @cached_property
    def structure(self) -> str:
        """Its tokens with every number and name as a placeholder."""
        return "".join([kind[1] for kind in self.kinds])

    @cached_property
    def word_list(self) -> list[str]:
        """Its words as they are spelled."""
        return words_of(self.token_list)

    @cached_property
    def word_set(self) -> frozenset[str]:
        """Its different words."""
        return frozenset(self.word_list)

    @cached_property
    def numbers(self) -> Counter[str]:
        """How often it has each number."""
        return Counter([token for token in self.token_list if "0" <= token[0] <= "9"])

    @cached_property
    def content(self) -> frozenset[str]:
        """Its content words."""
        return content_of(set(self.token_list))


def shape_of(tokens: list[str], alphabet: Alphabet, *, learn: bool = False) -> Shape:
    """The shape of a problem's tokens.

    Args:
        learn: add unknown tokens to the alphabet; for protected problems.
    """
    if learn:
        alphabet.learn(tokens)
    kinds = alphabet.spell(tokens)
    masked = _REPEATED.sub(_MASK, "".join([kind[2] for kind in kinds]))
    return Shape(tokens, kinds, "".join([kind[0] for kind in kinds]), masked)


@dataclass(frozen=True, slots=True)
class Scores:
    """What two problems have in common."""

    lcs: float
    masked: float
    structure: float
    held: float
    """Share of the shorter wording that the longer one holds in order."""
    wording: int
    """Words, placeholders left out, that both wordings have in order."""
    run: int
    """Words of the longest run that both share."""
    run_share: float
    """That run as a share of the shorter problem's words."""
    run_content: int
    """Different content words and numbers above 2 in that run."""
    numbers: float
    """Share of the protected problem's numbers that the training problem has."""
    has_numbers: bool
    """The protected problem has numbers."""
    same_numbers: bool
    """Both have the same numbers, each as often."""
    content: int
    """Content words that both have."""
    content_share: float
    """Those as a share of the problem with fewer."""


def content_of(words: Iterable[str]) -> frozenset[str]:
    """The words that tell what a problem is about: no wording, no names, no numbers."""
    return frozenset(
        [
            word
            for word in words
            if len(word) >= MIN_CONTENT_LETTERS and word not in GENERIC and not is_number(word)
        ]
    )


@dataclass(frozen=True, slots=True)
class Least:
    """Scores of which a pair must reach one."""

    run: int
    """Words of a run that count by themselves."""
    part: int
    """Words of a run that count if they are such a share of the shorter problem."""
    run_share: float
    masked: float
    lcs: float


def ratio(one: str, other: str) -> float:
    """2·L / (n + m) of two spelled sequences; 0 if both are empty."""
    size = len(one) + len(other)
    return 2 * LCSseq.similarity(one, other) / size if size else 0.0


def compare(protected: Shape, training: Shape, least: Least) -> Scores | None:
    """The scores of a pair; None if it is below everything that a rule asks for.

    A run too short for every rule is left at 0 words; `with_run` adds it.
    """
    wording = LCSseq.similarity(protected.masked, training.masked)
    sizes = len(protected.masked), len(training.masked)
    masked, held = 2 * wording / max(1, sum(sizes)), wording / max(1, min(sizes))
    lcs = ratio(protected.tokens, training.tokens)
    run = NO_RUN
    if shares_run(protected.words, training.words, min(least.run, least.part)):
        run = _run_of(protected, training)
    if masked < least.masked and lcs < least.lcs:
        part = run.size >= least.part and run.share >= least.run_share
        if not part and run.size < least.run:
            return None
    mine, theirs = protected.numbers, training.numbers
    common = len(protected.content & training.content)
    return Scores(
        lcs=lcs,
        masked=masked,
        structure=ratio(protected.structure, training.structure),
        held=held,
        wording=LCSseq.similarity(protected.wording, training.wording),
        run=run.size,
        run_share=run.share,
        run_content=run.content(protected),
        numbers=(mine & theirs).total() / mine.total() if mine else 1.0,
        has_numbers=bool(mine),
        same_numbers=mine == theirs,
        content=common,
        content_share=common / max(1, min(len(protected.content), len(training.content))),
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """The longest run of words that two problems share."""

    start: int
    """First word in the protected one."""
    size: int
    share: float
    """Its words as a share of the shorter problem's."""

    def content(self, protected: Shape) -> int:
        """Different content words and numbers above 2 in it."""
        words = protected.word_list[self.start : self.start + self.size]
        return len(content_of(words)) + len(_figures(words))


NO_RUN = _Run(0, 0, 0.0)


def _run_of(protected: Shape, training: Shape) -> _Run:
    start, size = longest_run(protected.words, training.words)
    shorter = max(1, min(len(protected.words), len(training.words)))
    return _Run(start, size, size / shorter)


def with_run(scores: Scores, protected: Shape, training: Shape) -> Scores:
    """The scores with those of the longest run, however short it is."""
    run = _run_of(protected, training)
    return replace(scores, run=run.size, run_share=run.share, run_content=run.content(protected))


def _figures(words: Sequence[str]) -> set[str]:
    """The numbers among some words that are no commonplace."""
    return {word for word in words if is_number(word) and word not in ("0", "1", "2")}
