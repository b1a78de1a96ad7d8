r"""Is a text English? By scripts, and by sentences dense with another language's words.

Called by catalogue.py; reads and writes nothing. Mathematics is written in no language:
formulas, LaTeX commands, code and Greek letters are taken out or ignored. A name, a
title or a quoted word of another language passes; one sentence of it inside an English
text does not. Every word is looked up once; only a text that holds unmistakable foreign
words is cut into sentences, and only stretches without a common English word are looked
at for weaker signs. docs/quality.md has the measurements, beside five language libraries.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import compress

from pipeline.corpus.rows.text import beyond_ascii
from pipeline.corpus.rules.function_words import (
    ALSO_ENGLISH,
    COMMON_ENGLISH,
    ENGLISH,
    NAME_PARTICLES,
    WORDS,
)

_CJK = (
    r"\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
)
_ALPHABETS = (
    r"\u0400-\u052f\u0531-\u058f\u05d0-\u05ff\u0600-\u06ff\u0700-\u07bf"
    r"\u0900-\u0dff\u0e00-\u0eff\u10a0-\u10ff\u1200-\u137f\u1780-\u17ff"
)
_CJK_RUN = re.compile(rf"[{_CJK}]{{2,}}")
_ALPHABET_RUN = re.compile(rf"[{_ALPHABETS}]{{4,}}")
_ACCENTED_GREEK = "άέήίόύώΆΈΉΊΌΎΏ"
_GREEK_RUN = re.compile(r"[\u0370-\u03ff]{3,}")
_FOREIGN_LETTER = re.compile(rf"[{_CJK}{_ALPHABETS}{_ACCENTED_GREEK}]")

MAX_CJK_CHARACTERS = 3
"""In runs of two or more: a quoted sign passes, a switched phrase does not."""
MAX_ALPHABET_WORDS = 2
"""Words of four letters or more: a cited name passes."""
MAX_ALPHABET_LETTERS = 20
"""In those words: Thai and Khmer are written without blanks."""
MAX_FOREIGN_SHARE = 0.2
"""Of all letters, whatever their arrangement."""

# Bounded, and none goes on past the next opening: the cost stays that of one pass.
_FORMULAS = re.compile(
    r"\$\$[^$]{0,2000}\$\$|\$[^$\n]{0,400}\$|\\\((?:(?!\\\().){0,2000}?\\\)"
    r"|\\\[(?:(?!\\\[).){0,2000}?\\\]|```(?:(?!```).){0,3000}```"
    r"|\[asy\](?:(?!\[asy\]).){0,3000}?\[/asy\]"
    r"|\\begin\{(\w{1,20}\*?)\}(?:(?!\\begin).){0,2000}?\\end\{\1\}|\\[A-Za-z]+",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_PLAIN_WORD = re.compile("[A-Za-z]+(?:'[A-Za-z]+)?")
"""The same of a sentence in ASCII."""
_SENTENCE_END = re.compile(r"[.!?;:…](?=\s|$)|\n")

_ACCENTED = re.compile("[\u00df-\u00f6\u00f8-\u024f\u1ea0-\u1ef9]")

MIN_WORDS = 4
"""A shorter sentence says too little about its language."""
CHUNK_WORDS = 14
"""Longer sentences are looked at piece by piece: a language may be switched within."""
MIN_PROOFS = 2
"""Different unmistakable words of one language in a sentence."""
MIN_PROOFS_BESIDE_ENGLISH = 3
"""The same where English function words stand beside them: a quoted title has two."""
MIN_WORDS_WITHOUT = 5
"""A sentence of so many words, none of them an English function word, needs one proof."""
MIN_GAP_LETTERS = 4
"""Tokens of letters alone in a stretch without common English words."""
MIN_GAP_WORDS = 0.7
"""Share of words among its tokens; the rest of most stretches is formulas."""
MAX_LANGUAGES = 3
"""The likeliest languages of a sentence that are tried."""
MIN_SHARE = 0.25
"""Function words make up a third to a half of running text in these languages."""


def _bare(word: str) -> str:
    """A word as it is typed without accents."""
    parts = unicodedata.normalize("NFKD", word)
    return "".join(one for one in parts if not unicodedata.combining(one))


def _spellings(words: str) -> frozenset[str]:
    return frozenset(spelling for word in words.split() for spelling in (word, _bare(word)))


def _proves(word: str) -> bool:
    return word not in ALSO_ENGLISH and (len(word) > 2 or not word.isascii())


_FUNCTION_WORDS = {language: _spellings(words) for language, words in WORDS.items()}
_NOT_ENGLISH = {
    language: words - ENGLISH - COMMON_ENGLISH for language, words in _FUNCTION_WORDS.items()
}
_NOT_ENGLISH_OF_ALL = frozenset().union(*_NOT_ENGLISH.values())
_UNMISTAKABLE = {
    language: frozenset(filter(_proves, words)) for language, words in _NOT_ENGLISH.items()
}
_ANY = frozenset().union(*_UNMISTAKABLE.values())

_SYMBOLS = frozenset(
    [*r"= + - * / < > & | $ : \ \\ \[ \] \( \) – — → × · ≤ ≥ ≈ ⇒ # ## ### &= \quad \\[".split()]
    + [*"bcdfghjklmnpqrstvwxz"]
    + [str(number) for number in range(101)]
)
"""Commonest tokens of formulas; no running text goes on across them."""
_COMMON = ENGLISH | COMMON_ENGLISH | _SYMBOLS
_PROOFS = _ANY - _COMMON
_TELLING = frozenset(word for word in _NOT_ENGLISH_OF_ALL if len(word) > 1) - _COMMON | _PROOFS
"""Words that may tell another language; most texts hold none, and nothing else is looked at."""
MIN_GAP = 6
"""Tokens of the shortest stretch between two common ones."""
_PUNCTUATION = ".,;:!?()\"'*«»„“”’¿¡"


def _is_accented(word: str) -> bool:
    return not word.isascii() and word.islower() and _ACCENTED.search(word) is not None


def _has_accents(text: str) -> bool:
    return not text.isascii() and _ACCENTED.search(beyond_ascii(text)) is not None


def _greek_words(text: str) -> list[str]:
    """Runs of Greek letters that carry an accent; those of formulas carry none."""
    runs = _GREEK_RUN.findall(text)
    return [run for run in runs if not set(_ACCENTED_GREEK).isdisjoint(run)]


def _foreign_script(text: str) -> str | None:
    if text.isascii() or _FOREIGN_LETTER.search(beyond_ascii(text)) is None:
        return None
    cjk = _CJK_RUN.findall(text)
    signs = sum(map(len, cjk))
    if signs > MAX_CJK_CHARACTERS:
        return f"{signs} characters of a CJK script, e.g. {cjk[0][:12]}"
    words = _ALPHABET_RUN.findall(text) + _greek_words(text)
    if len(words) > MAX_ALPHABET_WORDS or sum(map(len, words)) > MAX_ALPHABET_LETTERS:
        return f"{len(words)} words of a non-Latin script, e.g. {words[0][:20]}"
    foreign = len(_FOREIGN_LETTER.findall(text))
    letters = sum(map(str.isalpha, text))
    if foreign > MAX_FOREIGN_SHARE * letters:
        return f"{foreign} of {letters} letters are of a non-Latin script"
    return None


def _foreign_sentence(words: list[str]) -> str | None:
    """What makes a sentence foreign: another language's words, more of them than English ones.

    Words with accents count only in lower case: capitalised ones are names.
    """
    lowered = [word.lower() for word in words]
    present = _ANY.intersection(lowered)
    accented = {word for word in words if _is_accented(word)} - present
    if not present and len(accented) < MIN_PROOFS:
        return None
    likely = sorted(_UNMISTAKABLE, key=lambda one: -len(_UNMISTAKABLE[one] & present))
    for language in likely[:MAX_LANGUAGES]:
        known = _FUNCTION_WORDS[language]
        english = sum(word in ENGLISH and word not in known for word in lowered)
        proven = len(_UNMISTAKABLE[language] & present) + len(accented)
        if proven < _proofs_needed(len(words), english):
            continue
        hits = len([one for one in lowered if one in known]) + len(accented - known)
        if hits >= MIN_SHARE * len(words) and hits > english:
            said = " ".join(words[:6])
            return f"{hits} of {len(words)} words tell {language}: {said}"
    return None


def _proofs_needed(words: int, english: int) -> int:
    """Unmistakable words that a sentence must hold to be foreign."""
    if english:
        return MIN_PROOFS_BESIDE_ENGLISH
    return 1 if words >= MIN_WORDS_WITHOUT else MIN_PROOFS


def _chunks(words: list[str]) -> list[list[str]]:
    if len(words) <= CHUNK_WORDS:
        return [words]
    return [words[start : start + CHUNK_WORDS] for start in range(0, len(words), CHUNK_WORDS // 2)]


def _gaps(tokens: list[str], telling: set[str]) -> Iterator[list[str]]:
    """Tokens around telling ones, as far as none is common English."""
    stop = 0
    for place in compress(range(len(tokens)), map(telling.__contains__, tokens)):
        if place < stop:
            continue
        start, stop = place, place + 1
        while start > 0 and tokens[start - 1] not in _COMMON:
            start -= 1
        while stop < len(tokens) and tokens[stop] not in _COMMON:
            stop += 1
        if stop - start >= MIN_GAP:
            yield tokens[start:stop]


def _stretches(tokens: list[str], telling: set[str]) -> Iterator[list[str]]:
    """Words of each stretch of running text in which no common English word stands."""
    for stretch in _gaps(tokens, telling):
        if sum(map(str.isalpha, stretch)) >= MIN_GAP_LETTERS:
            words = [word for one in stretch if (word := one.strip(_PUNCTUATION)).isalpha()]
            words = [word for word in words if len(word) > 1]
            if len(words) >= MIN_WORDS_WITHOUT and len(words) >= MIN_GAP_WORDS * len(stretch):
                yield words


def _foreign_stretch(words: list[str]) -> str | None:
    """A stretch with two function words of one language, names' particles aside."""
    present = _NOT_ENGLISH_OF_ALL.intersection(words)
    if len(present) < MIN_PROOFS:
        return None
    for language, known in _NOT_ENGLISH.items():
        hits = present & known
        if len(hits) >= MIN_PROOFS and hits - NAME_PARTICLES:
            found = sum(word in hits for word in words)
            if found >= MIN_SHARE * len(words):
                return f"{found} of {len(words)} words tell {language}: {' '.join(words[:6])}"
    return None


def _foreign_words(text: str) -> str | None:
    """What the sentences of a text tell, looked at one by one."""
    for sentence in _SENTENCE_END.split(_FORMULAS.sub(" ", text)):
        plain = sentence.isascii()
        words = (_PLAIN_WORD if plain else _WORD).findall(sentence)
        if len(words) < MIN_WORDS or (plain and _ANY.isdisjoint(map(str.lower, words))):
            continue
        for chunk in _chunks(words):
            found = _foreign_sentence(chunk)
            if found is not None:
                return found
    return None


def foreign(text: str) -> str | None:
    """What makes a text other than English; None if nothing does."""
    found = _foreign_script(text)
    if found is not None:
        return found
    tokens = text.lower().split()
    telling = set(_TELLING.intersection(tokens))
    if not telling.isdisjoint(_PROOFS) or _has_accents(text):
        found = _foreign_words(text)
        if found is not None:
            return found
    if not telling:
        return None
    for words in _stretches(tokens, telling):
        found = _foreign_stretch(words)
        if found is not None:
            return found
    return None
