r"""What data sets put around a problem: answer-format instructions, chat markup.

Called by schemas.py; reads and writes nothing. A wrapper left in place would be
trained as part of every problem, contradict the run's own instruction, and make
unrelated problems look alike to deduplication and to the overlap check.
"""

from __future__ import annotations

import re

from pipeline.corpus.rows.harmony import MARK, messages

_EDGE_CHARACTERS = 500
"""No wrapper is longer; only so much of either end is searched."""
_MOST_WRAPPERS = 100

_BOX = r"\\boxed\{(?:\{\}|\.\.\.|\w{0,12}|(?:your |the )?(?:final )?answer|\\text\{[^{}]*\})?\}"
_VERB = (
    r"(?:please|let'?s|let us|return|put|present|make sure|remember|write|give|provide|enclose|"
    r"output|express|show|reason|think|solve|answer|your|the final|you must|you should|and|then)"
)
_SENTENCES = (
    rf"{_VERB}\b[^.?!\n]*?{_BOX}[^.?!\n]*[.!]?",
    r"solve the following (?:math\w* )?(?:problem|question)[^.:?\n]*[.:]",
    r"the last line of your response should be (?:of|in) the form[^\n]*?answer to the problem\.?",
    r"the last line of your response should be (?:of|in) the form[^.\n]*\.?",
    r"remember to put your answer on its own line after [\"'“]?answer:[\"'”]?\.?",
    r"(?:please |let'?s )?(?:reason|think)(?: about it)? step[ -]by[ -]step[.!]?",
    r"you must put your answer inside <answer>[^\n]*?i\.e\.[^\n]*?</answer>\.",
    r"this is the problem:",
    r"(?:question|problem|q)\s*:",
)
_ANY = "|".join(f"(?:{sentence})" for sentence in _SENTENCES)
_LEADING = re.compile(rf"\A\s*(?:{_ANY})(?=\s)", re.IGNORECASE)
_CUE = r"\n\s*(?:answer|solution|response|a)\s*:"
_TRAILING = re.compile(
    rf"(?:(?:(?<=[.?!:$\])}}\"'])\s+|\n\s*|\A\s*)(?:{_ANY})|{_CUE})\s*\Z", re.IGNORECASE
)
_HINTS = re.compile(r"boxed|answer|step|following|problem|question|solution|response|q\s*:|a\s*:")
"""One of these stands in every wrapper; most problems hold none at their edges."""
_TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>|\Z)", re.DOTALL)


def strip_wrapper(problem: str) -> str:
    """The problem without instructions on how to answer at either end."""
    text = problem.strip()
    if _HINTS.search(f"{text[:_EDGE_CHARACTERS]}\n{text[-_EDGE_CHARACTERS:]}".lower()) is None:
        return text
    for _ in range(_MOST_WRAPPERS):
        found = _LEADING.match(text[:_EDGE_CHARACTERS])
        if found is None or found.end() == len(text):
            break
        text = text[found.end() :].lstrip()
    for _ in range(_MOST_WRAPPERS):
        start = max(0, len(text) - _EDGE_CHARACTERS)
        found = _TRAILING.search(text, start)
        if found is None or found.start() == 0:
            break
        text = text[: found.start()].rstrip()
    return text


def chat_markup_turns(text: str) -> list[dict[str, str]] | None:
    """Turns of a prompt that was rendered with ChatML or harmony markup; None if it was not.

    The open assistant turn at the end, with or without its think tag, is no turn.
    """
    if MARK in text:
        spoken = [one for one in messages(text) if one.text]
        return [{"role": one.role, "content": one.text, "channel": one.channel} for one in spoken]
    if "<|im_start|>" not in text:
        return None
    turns = [{"role": role, "content": content} for role, content in _TURN.findall(text)]
    return [turn for turn in turns if turn["content"].strip() not in ("", "<think>")]
