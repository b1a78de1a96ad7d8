r"""Marks replies that look like cheating: no reasoning, or the answer before it.

Called by catalogue.py (`unreasoned`, `early_answer`) and by the judging step
(`reply_template`, counted over the whole set); reads and writes nothing. A mark is not
yet a reason to drop: `filter.flagged` decides.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from pipeline.corpus.rows.schemas import Candidate
from pipeline.corpus.rules.boxes import boxed_answers, final_answer, last_box_start

UNREASONED_CHARACTERS = 400
"""A longer reply reasons, or says something at least."""
MIN_REASONING = 12
"""Letters and figures, set phrases aside: "two and two make four" is reasoning."""
FIRST_WORDS = 120
"""Characters at the start of short reasoning that count as its beginning, at most a third and
only as far as nothing is calculated there."""

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_CANNED_PHRASE = re.compile(
    r"\\[A-Za-z]+|\b(?:the|final|correct|right|answer|result|solution|value|option|choice|is|are"
    r"|therefore|thus|hence|so|then|we|get|have|obtain|it|this|that|equals|to|of|problem|question"
    r"|sure|certainly|here|and|as|my|i|think|believe|be|must|see|can|clearly|obviously)\b|[\W_]+",
    re.IGNORECASE,
)
_CALCULATION = re.compile(
    r"\d\s?(?:[=<>+/^×÷·-]|\*(?!\*))|(?:[=<>+/^×÷·-]|(?<!\*)\*)\s?\d|\\(?:frac|sqrt|times|cdot)"
)

_CLAIM = re.compile(
    r"\b(?:(?:final|correct|given|provided|known|expected|reference|right|true|official|stated)\s)?"
    r"(?:answer|solution|result)(?:\skey)?(?:\s(?:to|of)\s(?:this|the)\s(?:problem|question))?"
    r"(?:\s(?:is|was|must\sbe|should\sbe|says|states|gives)|\s?[:=])"
    r"(?:\s(?:given|known|stated|listed)(?:\s(?:as|to\sbe))?)?(?:\s(?:simply|just|indeed))?"
    r"[\s:=*$\\(\[]{0,6}(?:boxed\{)?\s?",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(r"\b(?:if|whether|suppose|assume|say|maybe|perhaps|guess|unless)\b", re.I)
_GOES_ON = re.compile(
    r"[\w%^/{\\]|[.,]\d|\s?(?:[-+/^=<>]|\*(?!\*))|\s(?:times|or|more|less|plus|minus|percent|divided|mod)\b|[?]"
)

_MASKED = b"0123456789.,-+$ \t\n"


def _without_boxes(text: str) -> str:
    for content in boxed_answers(text):
        text = text.replace(f"{{{content}}}", " ", 1)
    return text


def unreasoned(row: Candidate) -> str | None:
    """Nothing but the box, with a phrase such as "The final answer is" beside it."""
    if len(row.thinking) + len(row.solution) > UNREASONED_CHARACTERS:
        return None
    said = _without_boxes(f"{row.thinking}\n{row.solution}")
    if _CALCULATION.search(said) is not None:
        return None
    left = "".join(_CANNED_PHRASE.sub(" ", said).split())
    return f"{len(left)} characters besides the answer" if len(left) < MIN_REASONING else None


def _stated_at(head: str, gold: str, problem: str) -> int | None:
    """Where the gold is first boxed or called the answer; None if it only occurs."""
    for box in _BOX.finditer(head):
        if head.startswith(gold + "}", box.end()):
            return box.start()
    for claim in _CLAIM.finditer(head):
        end = claim.end() + len(gold)
        if not head.startswith(gold, claim.end()) or _GOES_ON.match(head, end):
            continue
        sentence = head[max(head.rfind(".", 0, claim.start()), 0) : claim.start()]
        if _SUPPOSED.search(sentence) is None and head[claim.start() : end] not in problem:
            return claim.start()
    return None


def early_answer(row: Candidate, share: float) -> str | None:
    """The gold, stated as the answer at the very start of the reasoning.

    A number that merely equals the gold is none: it must stand in a box or be called
    the answer, outside a supposition, and not be the problem's own wording.

    Args:
        row: a row with a gold answer.
        share: first part of the reasoning that is looked at; 0 finds nothing.
    """
    reasoning = row.thinking or row.solution
    size = len(reasoning)
    if not share or not row.gold:
        return None
    first = int(share * size)
    head = reasoning[: max(first, min(FIRST_WORDS, size // 3))]
    place = _stated_at(head, row.gold, row.problem) if row.gold in head else None
    if place is None or (place > first and _CALCULATION.search(head, 0, place) is not None):
        return None
    said = " ".join(head[place : place + 40].split())
    return f"{said!r} at character {place} of {size}"


def reply_template(row: Candidate) -> int:
    """64-bit key that replies share which differ in nothing but figures and final answer.

    Digits, signs, separators and blanks are left out, and so is what the last box holds.
    """
    solution = row.solution
    answer = final_answer(solution)
    if answer is not None:
        start = last_box_start(solution)
        solution = solution[:start] + solution[start:].replace(f"{{{answer}}}", "", 1)
    text = f"{row.thinking}\0{solution}"
    masked = text.encode("utf-8", "surrogatepass").translate(None, _MASKED)
    return int.from_bytes(blake2b(masked, digest_size=8).digest(), "little")
