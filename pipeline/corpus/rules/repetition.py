"""Finds text that runs in circles: one passage repeated word for word.

Called by catalogue.py; reads and writes nothing. A model that has lost its thread repeats
itself until its token limit, and one that is trained on that does too. Calculations and
tables repeat a form, never their figures, so only exact copies count. Probes at even
distances are looked for again close by; a loop is confirmed by comparing the text with
itself, shifted by its period. Cost: a bounded search for each probe, linear in all.
"""

from __future__ import annotations

PROBE = 24
"""Characters that are looked for again; a repeated formula is shorter or stands alone."""
PROBE_DISTANCE = 300
"""Longest way between two probes; loops of twice that length are met for certain."""
MIN_PROBES = 6
"""Shorter texts are probed at so many places."""
MAX_PERIOD = 2000
"""Longer passages are found as repeated sentences."""
TRIES = 3
"""Recurrences of a probe that are tried as a period: a passage may hold it twice."""

MIN_LOOP = 160
"""Characters of the shortest loop: a row of dashes or of digits is none."""
MIN_TURNS = 4
"""Times that a passage stands in a row."""
TURNS_AT_END = 3
"""The same where the text ends in it: no honest ending says a thing three times over."""
LONG_LOOP = 400
LONG_TURNS = 5
"""A loop of so many characters and turns counts wherever it stands and whatever its share."""
MIN_LETTERS = 2
"""Letters of a passage that counts wherever it stands: rules and figures have none."""
MIN_LETTERS_AT_END = 8
"""The same of one that is found at the end in few turns: a short echo has fewer."""
MIN_SENTENCE = 20
"""Characters of a sentence or line whose copies are counted."""


def _run(text: str, place: int, period: int, forward: bool) -> int:
    """Characters from `place` on (or back) that stand again one period later.

    Found by doubling steps and then halving them, so that the comparing is the machine's.
    """

    def same(start: int, stop: int) -> bool:
        if forward:
            first, last = place + start, place + stop
        else:
            first, last = place - stop, place - start
        return text[first:last] == text[first + period : last + period]

    limit = len(text) - place - period if forward else place
    length, step = 0, 64
    while length + step <= limit and same(length, length + step):
        length += step
        step *= 2
    while step > 0:
        if length + step <= limit and same(length, length + step):
            length += step
        step //= 2
    return length


def _loop_at(text: str, place: int, reach: int) -> tuple[int, int, int]:
    """(start, period, length) of the loop that holds `place`; zeros if there is none.

    Args:
        reach: longest period that is looked for.
    """
    probe = text[place : place + PROBE]
    again = place
    for _ in range(TRIES):
        again = text.find(probe, again + 1, place + reach + PROBE)
        if again < 0:
            break
        period = again - place
        if not (
            text.startswith(probe, again + period)
            or (place >= period and text.startswith(probe, place - period))
        ):
            continue  # two turns are no loop
        before = _run(text, place, period, forward=False)
        length = before + _run(text, place, period, forward=True) + period
        if length >= MIN_LOOP and length >= MIN_TURNS * period:
            return place - before, period, length
    return 0, 0, 0


def _letters(passage: str) -> int:
    return sum(map(str.isalpha, passage))


def _says(text: str, place: int, period: int, length: int) -> str:
    passage = " ".join(text[place : place + min(period, 40)].split())
    return f"{length // period} times in a row, {length} characters of {len(text)}: {passage!r}"


def _loop(text: str, max_share: float) -> str | None:
    size = len(text)
    distance = max(1, min(PROBE_DISTANCE, size // MIN_PROBES))
    reach = min(MAX_PERIOD, size // MIN_TURNS)  # of a longer period the turns do not fit in
    place = 0
    while place + 2 * PROBE <= size:
        if text.find(text[place : place + PROBE], place + 1, place + reach + PROBE) < 0:
            place += distance
            continue
        start, period, length = _loop_at(text, place, reach)
        if period:
            tall = length >= LONG_LOOP and length >= LONG_TURNS * period
            worded = _letters(text[start : start + period]) >= MIN_LETTERS
            if length > max_share * size or (tall and worded):
                return _says(text, start, period, length)
        place = max(place + distance, start + length)
    return None


def _loop_at_end(text: str) -> str | None:
    """A text that ends in a loop was cut there by a limit, however long it was before."""
    size = len(text)
    before = size - PROBE
    first = max(0, before - min(MAX_PERIOD, size // TURNS_AT_END))
    for _ in range(TRIES):
        before = text.rfind(text[-PROBE:], first, before + PROBE - 1)
        period = size - PROBE - before
        start = size - max(TURNS_AT_END * period, MIN_LOOP)
        if before < 0 or start < 0:
            return None
        if text[start : size - period] == text[start + period :]:
            worded = _letters(text[-period:]) >= MIN_LETTERS_AT_END
            return _says(text, start, period, size - start) if worded else None
    return None


def _repeated_sentences(text: str, max_share: float) -> str | None:
    joined = text.replace("\n", ". ")
    pieces = joined.split(". ")
    characters = len(joined) - 2 * (len(pieces) - 1)
    if characters - sum(map(len, set(pieces))) <= max_share * len(text):
        return None
    long = [piece for piece in pieces if len(piece) >= MIN_SENTENCE]
    copies = sum(map(len, long)) - sum(map(len, set(long)))
    if copies <= max_share * len(text) or copies < MIN_LOOP:
        return None
    return f"{copies} of {len(text)} characters are copies of earlier sentences"


def loop_in(text: str, max_share: float) -> str | None:
    """What makes a text run in circles; None if nothing does.

    Args:
        text: reasoning or reply.
        max_share: share of the text that one loop, or copies of sentences, may take up.
    """
    text = text.rstrip()
    if len(text) < MIN_LOOP:
        return None
    return _loop_at_end(text) or _loop(text, max_share) or _repeated_sentences(text, max_share)
