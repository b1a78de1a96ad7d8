"""What a problem is about: one of 88 topics, found from its words. Pure.

Called by entries.py for every row. A topic is a subject, the one of whose words the
problem has most, and within the subject one of eight buckets: the smallest hash among
the problem's distinct words, by which texts that share words tend to meet (MinHash,
Broder 1997). No model, no second pass, and a topic depends on its problem alone.
docs/recipe.md shows how well topics follow subjects that people assigned.
"""

from __future__ import annotations

import re
from zlib import crc32

_LEXICON = {
    "geometry": "triangle circle angle square rectangle polygon radius perimeter area parallel"
    " perpendicular circumference diameter midpoint trapezoid rhombus hexagon sphere cone"
    " cylinder pyramid cube tangent chord inscribed circumscribed altitude bisector"
    " quadrilateral centimeters inches",
    "numbers": "divisible remainder prime divisor divisors modulo digit digits base factor factors"
    " multiple multiples gcd lcm congruent divided consecutive",
    "counting": "ways arrange arrangements choose committee permutations combinations letters"
    " seated paths subsets distinct colored coloring",
    "probability": "probability dice die coin random randomly expected flipped drawn rolled fair"
    " card cards marbles",
    "algebra": "equation solve polynomial quadratic roots root function graph line slope inverse"
    " domain range solution solutions inequality expand simplify coefficient",
    "trigonometry": "sin cos tan theta sec csc cot pi arccos arcsin degrees",
    "vectors": "complex matrix vector vectors mathbf pmatrix projection determinant imaginary unit"
    " cross",
    "sequences": "sequence arithmetic geometric series term terms sum infinite recursive",
    "calculus": "derivative integral limit maximum minimum",
    "everyday": "dollars cents hours minutes miles percent price cost students people average mean"
    " day days week year years per ratio money",
}
SUBJECTS = (*_LEXICON, "other")
"""Names of the subjects, by number; `other` has none of the words."""
BUCKETS = 8
TOPICS = len(SUBJECTS) * BUCKETS

_SUBJECT_OF = {
    word: number for number, words in enumerate(_LEXICON.values()) for word in words.split()
}
_COMMON = frozenset(
    "the and for that this with what are find let how all from has have each one two three given"
    " which value values such its not can there where when then than number numbers many determine"
    " compute express answer your form real positive integer integers suppose any only into some"
    " more between frac left right text sqrt cdot dot dots times begin end boxed mathrm"
    " displaystyle will was does must following".split()
)
"""Words that say nothing about the subject, the names of LaTeX commands among them."""
_WORD = re.compile(r"[a-z]{3,}")
_READ_CHARACTERS = 4_000
"""A longer problem is judged by its start, so that one row costs no more than another."""


def topic_of(problem: str) -> int:
    """Number of the problem's topic, `subject * BUCKETS + bucket`."""
    words = [
        word for word in _WORD.findall(problem[:_READ_CHARACTERS].lower()) if word not in _COMMON
    ]
    counts = [0] * len(SUBJECTS)
    for word in words:
        if word in _SUBJECT_OF:
            counts[_SUBJECT_OF[word]] += 1
    most = max(counts)
    subject = counts.index(most) if most else len(SUBJECTS) - 1
    return subject * BUCKETS + min(map(_hash, set(words)), default=0) % BUCKETS


def _hash(word: str) -> int:
    """CRC-32 spread by Knuth's multiplier; its high bits, which depend on all letters."""
    return (crc32(word.encode()) * 2_654_435_761 & 0xFFFFFFFF) >> 3
