r"""Is a text English? By scripts and by dense foreign function words.

Called by rules.py; reads and writes nothing. Mathematics is written in no language:
formulas, LaTeX commands, code and Greek letters are taken out or ignored, and a text
with few words is never refused for being strange. A single foreign name or a
Cyrillic letter in place of a Latin one is no foreign language either.
"""

from __future__ import annotations

import re

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
_FOREIGN_LETTER = re.compile(rf"[{_CJK}{_ALPHABETS}]")

MAX_CJK_CHARACTERS = 3
"""In runs of two or more: a quoted sign passes, a switched phrase does not."""
MAX_ALPHABET_WORDS = 1
"""Words of four letters or more: a cited name passes."""
MAX_FOREIGN_SHARE = 0.2
"""Of all letters, whatever their arrangement."""

# Bounded, so that a text full of opening delimiters costs no more than its length.
_FORMULAS = re.compile(
    r"\$\$.{0,2000}?\$\$|\$[^$\n]{0,400}\$|\\\(.{0,2000}?\\\)|\\\[.{0,2000}?\\\]"
    r"|```.{0,3000}?```|\[asy\].{0,3000}?\[/asy\]"
    r"|\\begin\{(\w{1,20}\*?)\}.{0,2000}?\\end\{\1\}|\\[A-Za-z]+",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")

FUNCTION_WORDS = {
    "Spanish": "que los las una por para del está es se y su sus cuántos cuál cada entre más qué",
    "Portuguese": "que não uma para os é dos das um em e por quantos qual cada entre mais são",
    "French": "que les une dans qui est des et du pour sur avec par sont chaque nombre nous il",
    "Italian": "che della gli una per di è sono nel ogni quanti il un dei alla più quale",
    "German": "und der die das ist nicht ein eine mit für von den dem zu wie sich sind wir auf",
    "Dutch": "het een van en de zijn niet voor dat hoeveel op met wordt elke wat",
    "Polish": "jest nie się że na do liczba oraz dla ile jak który liczb",
    "Turkish": "bir ve bu için ile kaç olan olarak sayı değil",
    "Indonesian": "yang dan untuk dari dengan adalah jika berapa pada sebuah",
    "Vietnamese": "và của là một các được có cho số không những trong",
    "Romanian": "și este care sunt pentru că din cu se numărul sau",
    "Swedish": "och är att det som för inte hur många ett av",
}
_FOREIGN = {language: frozenset(words.split()) for language, words in FUNCTION_WORDS.items()}
_ENGLISH = frozenset(
    "the of and to in is that for it as with are be by this on we a an if what how so "
    "from then or at can have has which each let find there their i you he she not was".split()
)

MIN_WORDS = 12
"""A shorter paragraph says too little about its language."""
MIN_FOREIGN_WORDS = 4
MIN_FOREIGN_SHARE = 0.15
"""Function words make up a third to a half of running text in these languages."""


def _foreign_script(text: str) -> str | None:
    if text.isascii():
        return None
    foreign = len(_FOREIGN_LETTER.findall(text))
    if foreign == 0:
        return None
    cjk = sum(len(run) for run in _CJK_RUN.findall(text))
    words = _ALPHABET_RUN.findall(text)
    letters = sum(character.isalpha() for character in text)
    if cjk > MAX_CJK_CHARACTERS:
        return f"{cjk} characters of a CJK script, e.g. {_CJK_RUN.findall(text)[0][:12]}"
    if len(words) > MAX_ALPHABET_WORDS:
        return f"{len(words)} words of a non-Latin script, e.g. {words[0][:20]}"
    if foreign > MAX_FOREIGN_SHARE * letters:
        return f"{foreign} of {letters} letters are of a non-Latin script"
    return None


def _foreign_words(paragraph: str) -> str | None:
    words = [word.lower() for word in _WORD.findall(paragraph)]
    if len(words) < MIN_WORDS:
        return None
    english = sum(word in _ENGLISH for word in words)
    for language, known in _FOREIGN.items():
        hits = [word for word in words if word in known and word not in _ENGLISH]
        enough = len(set(hits)) >= MIN_FOREIGN_WORDS and len(hits) >= MIN_FOREIGN_SHARE * len(words)
        if enough and len(hits) > english:
            return f"{len(hits)} of {len(words)} words are {language} function words"
    return None


def foreign(text: str) -> str | None:
    """What makes a text other than English; None if nothing does."""
    found = _foreign_script(text)
    if found is not None:
        return found
    prose = _FORMULAS.sub(" ", text)
    whole = _foreign_words(prose)
    if whole is not None:
        return whole
    paragraphs = prose.split("\n") if "\n" in prose else []
    return next((said for one in paragraphs if (said := _foreign_words(one))), None)
