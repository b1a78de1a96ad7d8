r"""A problem's wording apart from its figures: what near copies share, and what they may not.

Called by near_copies.py; reads and writes nothing. Two problems are near copies when
their word 3-grams agree (Jaccard similarity) and their figures are the same, one by one:
numbers, operators, brackets, functions, symbols (single letters and words in capitals)
and the words that turn a question round. A problem with other numbers is another problem.
"""

from __future__ import annotations

import re

from pipeline.base.records import normalise_problem

_NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty "
    "ninety hundred thousand million billion half halves third thirds quarter quarters fourth "
    "fifth sixth seventh eighth ninth tenth first second twice double triple thrice dozen "
)
_TURNS = (
    "maximum minimum max min largest smallest greatest least most fewest more less fewer "
    "positive negative even odd increasing decreasing not no without "
)
_FUNCTIONS = (
    "frac sqrt sum prod int lim sin cos tan cot sec csc log ln exp gcd lcm mod bmod pmod binom "
    "choose floor ceil infty times div pm mp "
)
_COUNTED = frozenset((_NUMBER_WORDS + _TURNS + _FUNCTIONS).split())
_SAME = {
    "dfrac": "frac",
    "tfrac": "frac",
    "bmod": "mod",
    "pmod": "mod",
    "cdot": "*",
    "times": "*",
    "ast": "*",
    "div": "/",
    "le": "≤",
    "leq": "≤",
    "ge": "≥",
    "geq": "≥",
    "ne": "≠",
    "neq": "≠",
    "lt": "<",
    "gt": ">",
}
_LAYOUT = re.compile(r"\\(?:text|mathrm|mathbf|textbf|operatorname|displaystyle)(?![a-z])")
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|\\,)(?=\d{3}(?!\d))")
_CAPITALS = re.compile(r"(?<![^\W\d_])[^\W\d_a-z]{2,}(?![^\W\d_])")
_PLAIN_LETTERS = frozenset("ais")
"""Single letters that are words, or the end of one: a, I, 's."""
_SIGNS = str.maketrans("×·∗⋅÷⁄−–", "****//--")
_TOKEN = re.compile(
    r"[^\W\d_]+|\d+(?:\.\d+)?|[+*/=<>≤≥≠^%()]"
    r"|-(?=\s*(?:[\d\\({]|[a-z](?![a-z])))|(?:(?<=[\d)])|(?<=\b[a-z]))!"
)
SHINGLE_WORDS = 3


def read_wording(problem: str) -> tuple[list[str], list[str]]:
    """(words, figures) of a problem; numbers are both."""
    text = _THOUSANDS.sub("", problem)
    figures = [word for word in _CAPITALS.findall(text) if word.isupper()]
    text = _LAYOUT.sub(" ", normalise_problem(text).translate(_SIGNS))
    tokens = [_SAME.get(said, said) for said in _TOKEN.findall(text)]
    figures += [
        said
        for said in tokens
        if said in _COUNTED
        or not said[0].isalpha()
        or (len(said) == 1 and said not in _PLAIN_LETTERS)
    ]
    return [said for said in tokens if said[0].isalnum()], figures


def shingles(words: list[str]) -> frozenset[str]:
    """The word 3-grams; of fewer words, all of them as one; of none, nothing."""
    if len(words) < SHINGLE_WORDS:
        return frozenset([" ".join(words)] if words else [])
    grams = zip(words, words[1:], words[2:])
    return frozenset([f"{one} {two} {three}" for one, two, three in grams])


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Shared elements over all elements; of two empty sets 1."""
    shared = len(one & other)
    whole = len(one) + len(other) - shared
    return shared / whole if whole else 1.0


def are_near_copies(one: str, other: str, similarity: float) -> bool:
    """Whether two problems are one: figures equal, wording at least so similar."""
    (words, figures), (words_of, figures_of) = read_wording(one), read_wording(other)
    return figures == figures_of and jaccard(shingles(words), shingles(words_of)) >= similarity
