"""From scores to a class of contamination, by thresholds that a person can follow.

Called by judgement.py and findings.py; reads and writes nothing. Every rule names the
class that it proves and the method that it rests on; docs/decontamination.md says on which
pairs the thresholds were set and what they find elsewhere.

copy        the same problem, or the same set-up with another question
edited      the same wording with other numbers, names or formulas
paraphrase  the same problem in other words
review      suspicious, below what is certain
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.corpus.overlap.similarity import Least, Scores

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

CLASSES = ("copy", "edited", "paraphrase", "review")
"""Strongest first: a training problem takes the strongest class of its pairs."""
METHODS = ("exact", "contained", "ngram", "lcs", "masked", "cosine")

COPY_RUN_SHARE = 0.6
"""One run of words makes up so much of the shorter problem."""
COPY_LCS = 0.8
EDITED_LCS = 0.6
"""As Qwen2.5-Math's; here the figures in the shared run must tell the two apart from others."""
NGRAM_LCS = 0.58
"""0.56 to 0.58 drop the most contaminated and the fewest other pairs of the calibration."""
EDITED_MASKED = 0.8
ALIKE_STRUCTURE = 0.7
"""Structure below which equal wording stands around other formulas."""
EDITED_MEAN = 0.85
"""Mean of masked wording and structure."""
RICH_MASKED = 0.7
RICH_CONTENT, RICH_SHARE = 4, 0.7
"""Content words, and their share, that prove an edit whose wording agrees less."""
CONTENT, CONTENT_SHARE = 2, 0.6
RUN_WORDS, RUN_CONTENT = 8, 2
KEPT_NUMBERS = 0.8
FORM_WORDING = 7
"""Shared words that prove an edit by themselves where the very formulas stand around them."""
EDITED_WORDING = 5
REVIEW_WORDING = 6
"""Shared words, numbers and names left out; fewer are a genre, not a problem."""
REVIEW_MASKED, REVIEW_HELD = 0.6, 0.8


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks against a pair, boilerplate left out."""

    scores: Scores
    exact: bool = False
    """All tokens are equal."""
    contained: bool = False
    """A protected problem too short for n-grams stands inside the other, whole."""
    ngram: bool = False
    """A run of `decontaminate.ngram_words` words is shared."""
    near: bool = False
    """Neighbours by embedding: `decontaminate.review_cosine` or more."""
    nearest: bool = False
    """So near that it proves a paraphrase: `decontaminate.paraphrase_cosine` or more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The class of a pair and the methods that prove it."""

    name: str
    methods: tuple[str, ...]


def _same_set_up(e: Evidence) -> bool:
    s = e.scores
    shared = s.run_share >= COPY_RUN_SHARE and s.run >= RUN_WORDS and s.numbers == 1
    specific = s.run_content >= RUN_CONTENT and (s.has_numbers or s.content_share == 1)
    return shared and (specific or e.ngram)


def _same_numbers(e: Evidence) -> bool:
    s = e.scores
    enough = s.content >= CONTENT and s.content_share == 1
    return s.has_numbers and s.same_numbers and s.lcs >= COPY_LCS and enough


def _same_figures(e: Evidence) -> bool:
    s = e.scores
    specific = s.run >= RUN_WORDS and s.run_content >= RUN_CONTENT
    return s.lcs >= EDITED_LCS and specific and s.has_numbers and s.numbers >= KEPT_NUMBERS


def _same_wording(e: Evidence) -> bool:
    s = e.scores
    if s.wording < EDITED_WORDING:
        return False
    alike = s.masked >= EDITED_MASKED and s.structure >= ALIKE_STRUCTURE
    rich = s.masked >= RICH_MASKED and s.content >= RICH_CONTENT
    form = s.masked == 1 and s.structure == 1 and s.lcs >= COPY_LCS
    return (
        (form and s.wording >= FORM_WORDING)
        or (alike and s.content >= CONTENT and s.content_share >= CONTENT_SHARE)
        or (rich and s.content_share >= RICH_SHARE)
        or ((s.masked + s.structure) / 2 >= EDITED_MEAN and s.content >= 1)
    )


def _like_wording(e: Evidence) -> bool:
    s = e.scores
    if s.wording < REVIEW_WORDING:
        return False
    alike = s.masked >= EDITED_MASKED and s.structure >= ALIKE_STRUCTURE
    return alike or (s.masked >= REVIEW_MASKED and s.held >= REVIEW_HELD and s.content >= 1)


def _like_run(e: Evidence) -> bool:
    return e.ngram and (e.scores.run_content > 0 or e.scores.lcs >= NGRAM_LCS)


def least_scores(ngram_words: int) -> Least:
    """Below all of these no rule holds, unless the pair is certain otherwise."""
    masked = min(EDITED_MASKED, RICH_MASKED, REVIEW_MASKED)
    return Least(ngram_words, RUN_WORDS, COPY_RUN_SHARE, masked, min(EDITED_LCS, NGRAM_LCS))


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens of many problems by their kind."""

    words: Ints
    """Words without numbers and one-letter names."""
    names: Ints
    """Numbers and one-letter names."""
    signs: Ints
    """Operators."""
    masks: Ints
    """Runs of numbers and names."""

    def take(self, places: Ints) -> Sizes:
        """The sizes of the problems at these places."""
        return Sizes(self.words[places], self.names[places], self.signs[places], self.masks[places])


def may_hold(common: Ints, run: Ints, mine: Sizes, theirs: Sizes) -> Bools:
    """Which pairs some rule may hold for that needs neither an n-gram nor an equal text.

    Every score is replaced by the largest that the counts allow: no common subsequence has
    more words than both have, nor more numbers, operators or placeholders than the poorer.

    Args:
        common: at least so many words, numbers and names left out, as both have.
        run: at least so many words as the longest run that both share.
    """
    masked = common + np.minimum(mine.masks, theirs.masks)
    wordings = mine.words + mine.masks, theirs.words + theirs.masks
    ratio = 2 * masked / np.maximum(1, wordings[0] + wordings[1])
    held = masked / np.maximum(1, np.minimum(*wordings))
    least = min(EDITED_MASKED, RICH_MASKED, 2 * EDITED_MEAN - 1)
    worded = (common >= EDITED_WORDING) & (ratio >= least)
    listed = (common >= REVIEW_WORDING) & (ratio >= REVIEW_MASKED) & (held >= REVIEW_HELD)
    names = common + np.minimum(mine.names, theirs.names)
    tokens = names + np.minimum(mine.signs, theirs.signs)
    words = mine.words + mine.names, theirs.words + theirs.names
    lcs = 2 * tokens / np.maximum(1, words[0] + words[1] + mine.signs + theirs.signs)
    equal = (common >= CONTENT) & (lcs >= COPY_LCS)
    share = np.minimum(run, names) / np.maximum(1, np.minimum(*words))
    long = (run >= RUN_WORDS) & ((share >= COPY_RUN_SHARE) | (lcs >= EDITED_LCS))
    result: Bools = worded | listed | equal | long
    return result


Rule = tuple[str, str, Callable[[Evidence], bool]]

RULES: tuple[Rule, ...] = (
    ("copy", "exact", lambda e: e.exact),
    ("copy", "contained", lambda e: e.contained),
    ("copy", "lcs", lambda e: _same_set_up(e) or _same_numbers(e)),
    (
        "edited",
        "ngram",
        lambda e: e.ngram and e.scores.lcs >= NGRAM_LCS and e.scores.run_content > 0,
    ),
    ("edited", "lcs", _same_figures),
    ("edited", "masked", _same_wording),
    ("paraphrase", "cosine", lambda e: e.nearest),
    ("review", "ngram", _like_run),
    ("review", "masked", _like_wording),
    ("review", "cosine", lambda e: e.near),
)
"""Class, method, condition; strongest class first."""


def classify(evidence: Evidence, *, genre: bool = False) -> Verdict | None:
    """The strongest class that some rule proves, with all methods that prove it.

    Args:
        genre: so many training problems are worded like the protected one that wording
            alone proves nothing.
    """
    proved = [
        (name, method)
        for name, method, holds in RULES
        if not (genre and method == "masked") and holds(evidence)
    ]
    if not proved:
        return None
    strongest = proved[0][0]
    methods = [method for name, method in proved if name == strongest]
    if evidence.ngram and "ngram" not in methods:
        methods.append("ngram")
    return Verdict(strongest, tuple(sorted(methods, key=METHODS.index)))
