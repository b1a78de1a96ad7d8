r"""Does a training problem repeat a protected one? By word n-grams and whole texts.

Called by `python -m pipeline.decontaminate`; reads and writes nothing.

Both texts become words: lower case, LaTeX layout and punctuation gone. A run of
`ngram_words` equal words is a copy. Protected problems with fewer words are compared
whole, with their operators (3+4 is not 3-4): equal, or contained at word boundaries
when words and operators make at least `MIN_CONTAINED_TOKENS`.

Wording that many problems share ("where m and n are relatively prime positive
integers, find …") is no evidence. A shared text is such boilerplate when it occurs

- in more than `boilerplate_share` of the distinct training problems and in at least
  `MIN_BOILERPLATE_PROBLEMS` of them: in a small set a single copy would already exceed
  the share and excuse itself; or
- in `MIN_WORDING_PROBLEMS` different problems of one protected set: a copy is known by
  what only its original says. Two versions of one problem do not count as different.

An equal whole text is evidence however often it occurs.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.base.records import Problem

MIN_CONTAINED_TOKENS = 4
"""Words and operators; shorter problems ("simplify sqrt 50") are part of too many others."""
MIN_BOILERPLATE_PROBLEMS = 10
"""Distinct training problems that share an n-gram before it can count as boilerplate."""

MIN_WORDING_PROBLEMS = 3
"""Different problems of one protected set that share a text before it is mere wording."""
SAME_PROBLEM_SHARE = 0.5
"""Common words, of all words of two problems, from which they are versions of one."""

_DRAWING = re.compile(r"\[asy\].*?\[/asy\]", re.DOTALL)
_LAYOUT = re.compile(
    r"\\(?:begin|end)\{\w+\*?\}(?:\{[lcr|]+\})?|\\(?:left|right|displaystyle|textstyle|limits|text|textbf|textit|mathrm|mathbf|mbox|"
    r"operatorname|quad|qquad|item|hspace|vspace|big|bigg)(?![a-z])|\\[,;:! ]"
)
_SPELLINGS = (
    (re.compile(r"\\[dtc]frac(?![a-z])"), r"\\frac"),
    (re.compile(r"\\(?:leq|leqslant)(?![a-z])|≤"), r"\\le"),
    (re.compile(r"\\(?:geq|geqslant)(?![a-z])|≥"), r"\\ge"),
    (re.compile(r"\\(?:cdot|times)(?![a-z])|[×·⋅]"), "*"),
    (re.compile(r"\\div(?![a-z])|÷"), "/"),
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"(?<=\d)\{,\}(?=\d)"), ""),
)
_TOKEN = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?|[-+*/=<>^!]")


@dataclass(frozen=True, slots=True)
class Hit:
    """Why a training problem counts as a copy."""

    reason: str
    """overlap-exact, overlap-contained or overlap-ngram."""
    words: str
    """What both texts share."""
    items: list[Problem]
    """Protected problems that hold it; a source is the name of its set."""

    @property
    def sets(self) -> list[str]:
        """Names of the sets that hold it, each once."""
        return list(dict.fromkeys(item.source for item in self.items))

    @property
    def detail(self) -> str:
        """One line for the dropped row."""
        more = f" (also in {', '.join(self.sets[1:])})" if len(self.sets) > 1 else ""
        return f"{self.items[0].source} {self.items[0].origin}{more}: {self.words}"


def tokens_of(text: str) -> list[str]:
    """Words, numbers and operators of a problem, as far as they carry meaning."""
    plain = unicodedata.normalize("NFKC", _DRAWING.sub(" ", text)).lower()
    plain = _LAYOUT.sub(" ", plain.replace("’", "'").replace("'", ""))
    for pattern, spelling in _SPELLINGS:
        plain = pattern.sub(spelling, plain)
    return _TOKEN.findall(plain)


def words_of(tokens: Sequence[str]) -> list[str]:
    """The tokens without operators: what n-grams are made of."""
    return [token for token in tokens if token[0].isalnum()]


def ngrams(words: Sequence[str], size: int) -> Iterator[str]:
    """Every run of `size` words, joined by blanks."""
    for start in range(len(words) - size + 1):
        yield " ".join(words[start : start + size])


Places = dict[str, list[Problem]]
"""Text → different protected problems that hold it, in the order of the sets."""


@dataclass
class Protected:
    """Index of all protected problems.

    Args:
        size: words of an n-gram that counts as a copy.
    """

    size: int
    by_ngram: Places = field(default_factory=dict)
    by_text: Places = field(default_factory=dict)
    """All whole texts, long ones too, so that a copy is called a copy."""
    short: Places = field(default_factory=dict)
    """Texts that may be contained in a longer problem."""
    short_sizes: set[int] = field(default_factory=set)
    wording: set[str] = field(default_factory=set)
    """Texts that several different problems of one set share."""
    vocabulary: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    """(set, problem id) → the problem's words."""

    def add(self, item: Problem) -> None:
        """Protect one more problem."""
        tokens = tokens_of(item.problem)
        words = words_of(tokens)
        self.vocabulary[item.source, item.id] = frozenset(words)
        if tokens:
            self._note(self.by_text, " ".join(tokens), item)
        for ngram in ngrams(words, self.size):
            self._note(self.by_ngram, ngram, item)
        if len(tokens) >= MIN_CONTAINED_TOKENS and len(words) < self.size:
            self._note(self.short, " ".join(tokens), item)
            self.short_sizes.add(len(tokens))

    def _note(self, places: Places, text: str, item: Problem) -> None:
        found = places.setdefault(text, [])
        others = [other for other in found if other.source == item.source]
        if not any(self._same(other, item) for other in others):
            found.append(item)
            if len(others) + 1 >= MIN_WORDING_PROBLEMS:
                self.wording.add(text)

    def _same(self, one: Problem, other: Problem) -> bool:
        """Whether two problems of a set are versions of one, by the words they use."""
        mine = self.vocabulary[one.source, one.id]
        theirs = self.vocabulary[other.source, other.id]
        return len(mine & theirs) >= SAME_PROBLEM_SHARE * len(mine | theirs)

    def shared(self, tokens: Sequence[str]) -> list[tuple[str, str, list[Problem]]]:
        """(reason, text, protected problems) of each shared text that is not mere wording."""
        found = [
            ("overlap-ngram", ngram, self.by_ngram[ngram])
            for ngram in ngrams(words_of(tokens), self.size)
            if ngram in self.by_ngram and ngram not in self.wording
        ]
        for size in sorted(self.short_sizes):
            found += [
                ("overlap-contained", text, self.short[text])
                for text in ngrams(tokens, size)
                if text in self.short and text not in self.wording
            ]
        return found


@dataclass
class Boilerplate:
    """How many distinct training problems share each suspicious text.

    Args:
        share: of distinct problems; a text in more of them is no evidence.
    """

    share: float
    problems: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def note(self, protected: Protected, key: str, problem: str) -> None:
        """Count one training problem; a second trace of it changes nothing."""
        if key in self.problems:
            return
        self.problems.add(key)
        self.counts.update({text for _, text, _ in protected.shared(tokens_of(problem))})

    def excuses(self, text: str) -> bool:
        """Whether so many problems share a text that it proves nothing."""
        count = self.counts[text]
        return count >= MIN_BOILERPLATE_PROBLEMS and count > self.share * len(self.problems)

    def excused(self) -> list[tuple[str, int]]:
        """Texts that were no evidence, with the number of problems, commonest first."""
        return [(text, count) for text, count in self.counts.most_common() if self.excuses(text)]


def find_hit(protected: Protected, boilerplate: Boilerplate, problem: str) -> Hit | None:
    """What makes a training problem a copy of a protected one; None if nothing does."""
    tokens = tokens_of(problem)
    equal = protected.by_text.get(" ".join(tokens))
    if equal is not None:
        return Hit("overlap-exact", " ".join(tokens), equal)
    for reason, text, items in protected.shared(tokens):
        if not boilerplate.excuses(text):
            return Hit(reason, text, items)
    return None
