r"""The boxes of a reply: where the last one lies, what all of them hold.

Read by catalogue.py, cutting.py and suspicion.py; writes nothing. Every function costs one
pass over its text; what a box holds is compared by `pipeline.base.grading`, which
evaluates nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pipeline.base.grading import Verdict, after_thinking, grade, last_boxed

MAX_BOXES = 20
"""Boxes of one reply that are compared, counted from its end."""

_BRACED = re.compile(r"\\(?:boxed|fbox)\s*\{")


def last_box_start(reply: str) -> int:
    r"""Where the last `\boxed` or `\fbox` of a text begins; -1 if there is none."""
    return max(reply.rfind("\\boxed"), reply.rfind("\\fbox"))


@lru_cache(maxsize=4)
def final_answer(reply: str) -> str | None:
    """What the last box of a reply holds, if its grade depends on that box alone.

    None where it cannot be told by the end of the reply: no box, or the last one is open,
    empty or without braces, or think tags are about. Remembered for the last few replies,
    since several rules ask in turn.
    """
    start = last_box_start(reply)
    if start < 0 or "think>" in reply or _BRACED.match(reply, start) is None:
        return None
    return last_boxed(reply[start:])


@lru_cache(maxsize=4)
def answer_in(reply: str) -> str | None:
    """What the box that is graded holds; None if there is none."""
    answer = final_answer(reply)
    return last_boxed(after_thinking(reply)) if answer is None else answer


def grade_reply(reply: str, gold: str) -> Verdict:
    """`grade`, at the cost of the last box instead of the whole reply."""
    answer = final_answer(reply)
    return grade(reply if answer is None else f"\\boxed{{{answer}}}", gold)


def boxed_answers(reply: str) -> list[str]:
    r"""Contents of the last `MAX_BOXES` boxes of a text, in order."""
    found: list[str] = []
    end = len(reply)
    while len(found) < MAX_BOXES and (start := reply.rfind("\\boxed", 0, end)) >= 0:
        content = last_boxed(reply[start:end])
        if content is not None:
            found.insert(0, content)
        end = start
    return found
