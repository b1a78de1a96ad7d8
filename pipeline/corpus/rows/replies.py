r"""A reply as text → its private reasoning and its visible part.

Called by turns.py and schemas.py; reads and writes nothing. Reasoning may lie in think
tags of several spellings or in a harmony channel; GSM8K's `<<48/2=24>>` marks and its
last line `#### 72` become plain text and a box.
"""

from __future__ import annotations

import re

from pipeline.base.grading import last_boxed
from pipeline.corpus.rows.harmony import split_channels
from pipeline.corpus.rows.text import RowFault

OPEN, CLOSE = "<think>", "</think>"
_SPELLINGS = {
    "<|begin_of_thought|>": OPEN,
    "<|end_of_thought|>": CLOSE,
    "<|begin_of_solution|>": "",
    "<|end_of_solution|>": "",
    **{f"<{name}>": OPEN for name in ("thinking", "thought", "reasoning", "seed:think")},
    **{f"</{name}>": CLOSE for name in ("thinking", "thought", "reasoning", "seed:think")},
}
_SPELT = re.compile("<(?:" + "|".join(re.escape(one[1:]) for one in _SPELLINGS) + ")")
"""Begins with one fixed character, which makes the search fast."""
_OTHER_SPELLINGS = {"[THINK]": OPEN, "[/THINK]": CLOSE, "◁think▷": OPEN, "◁/think▷": CLOSE}
_END_TOKENS = (
    *("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|end|>", "<|return|>"),
    *("</s>", "<｜end▁of▁sentence｜>"),
)
_ANSWER_TAGS = re.compile(r"\A\s*<answer>(.*)</answer>\s*\Z", re.DOTALL)
_CALCULATOR = re.compile(r"<<[^<>\n]*>>")
_HASHES = re.compile(r"(?:\A|\n)[ \t]*####[ \t]*([^\n]+)\s*\Z")


def split_reply(text: str, field_thinking: str = "") -> tuple[str, str]:
    """(reasoning, visible reply) of a reply.

    Args:
        text: the reply, with or without think tags; the opening tag may be missing,
            as templates that write it themselves leave it out.
        field_thinking: reasoning that came in a field of its own.

    Raises:
        RowFault: unfinished-thinking, malformed-thinking when tags are repeated, follow
            visible text, or repeat other reasoning than the field's, or tool-use.
    """
    channels = split_channels(text)
    if channels is not None:
        thoughts, text = channels
        text = f"{OPEN}{thoughts}{CLOSE}{text}" if thoughts else text
    text, field_thinking = _respelt(text), _respelt(field_thinking)
    outer = field_thinking.strip().removeprefix(OPEN).removesuffix(CLOSE).strip()
    text = _without_end_tokens(text)
    opened, closed = text.count(OPEN), text.count(CLOSE)
    if opened > closed:
        raise RowFault("unfinished-thinking", f"{opened} opening and {closed} closing think tags")
    if closed > 1:
        raise RowFault("malformed-thinking", f"{closed} closing think tags")
    inner, _, visible = text.rpartition(CLOSE)
    before, tag, thoughts = inner.rpartition(OPEN)
    if tag and before.strip():
        raise RowFault("malformed-thinking", "visible text before the think tag")
    thoughts = thoughts.strip()
    if outer and thoughts and outer != thoughts:
        raise RowFault("malformed-thinking", "reasoning in a field and, differing, in tags")
    answer = _ANSWER_TAGS.match(visible)
    return outer or thoughts, (answer[1] if answer else visible).strip()


def _respelt(text: str) -> str:
    """All think tags in one spelling."""
    if "<" in text:
        text = _SPELT.sub(lambda found: _SPELLINGS[found.group()], text)
    if "THINK]" in text or "◁" in text:
        for spelling, tag in _OTHER_SPELLINGS.items():
            text = text.replace(spelling, tag)
    return text


def _without_end_tokens(text: str) -> str:
    end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        token = next((one for one in _END_TOKENS if text.endswith(one, 0, end)), None)
        if token is None:
            return text[:end]
        end -= len(token)


def split_hashes(text: str) -> tuple[str, str | None]:
    """(text before, answer) of a text whose last line is `#### answer`; else (text, None)."""
    start = text.rfind("####")
    found = None if start < 0 else _HASHES.search(text, max(0, text.rfind("\n", 0, start)))
    return (text, None) if found is None else (text[: found.start()].rstrip(), found[1].strip())


def worked_solution(text: str) -> str:
    r"""A solution in this project's form: no calculator marks, `#### x` as `\boxed{x}`."""
    body, answer = split_hashes(text)
    if answer is None:
        return text
    body = _CALCULATOR.sub("", body)
    if last_boxed(body) is not None:
        return body
    return f"{body}\n\n\\boxed{{{answer}}}" if body else f"\\boxed{{{answer}}}"
