"""Harmony channels: `<|channel|>analysis<|message|>…<|end|>…<|channel|>final<|message|>…`.

Called by replies.py, turns.py and wrappers.py; reads and writes nothing. The analysis is
reasoning, the final channel the visible reply; a commentary that addresses a recipient
is a tool call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.corpus.rows.text import RowFault

MARK = "<|message|>"
_MESSAGE = re.compile(
    r"(?:<\|start\|>(?P<role>[^<]*))?(?:<\|channel\|>(?P<channel>[^<]*))?(?:<\|constrain\|>[^<]*)?"
    r"<\|message\|>(?P<text>.*?)(?P<end><\|end\|>|<\|return\|>|<\|call\|>|(?=<\|start\|>|<\|channel\|>)|\Z)",
    re.DOTALL,
)
_BARE_ANALYSIS, _BARE_FINAL = "analysis", "assistantfinal"
"""What is left of the markup where special tokens were skipped in decoding."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its role (may be empty), channel (may be empty), text, and if it was ended."""

    role: str
    channel: str
    text: str
    ended: bool


def messages(text: str) -> list[Message]:
    """The messages of a text with harmony markup, in order; empty if it has none."""
    if MARK not in text:
        return []
    return [
        Message(
            (found["role"] or "").strip(),
            (found["channel"] or "").strip(),
            found["text"].strip(),
            bool(found["end"]),
        )
        for found in _MESSAGE.finditer(text)
    ]


def is_call(channel: str) -> bool:
    """Whether a channel's header addresses a tool: `commentary to=functions.x`."""
    return " to=" in f" {channel}" or "to=functions" in channel


def split_channels(text: str) -> tuple[str, str] | None:
    """(reasoning, visible reply) of an assistant's text; None if it has no channels.

    Raises:
        RowFault: tool-use, or unfinished-thinking where no final channel follows an
            analysis that was not ended.
    """
    if text.startswith(_BARE_ANALYSIS) and _BARE_FINAL in text and MARK not in text:
        before, _, after = text.removeprefix(_BARE_ANALYSIS).rpartition(_BARE_FINAL)
        return before.strip(), after.strip()
    found = messages(text)
    if not found:
        return None
    if any(is_call(one.channel) or is_call(one.role) for one in found):
        raise RowFault("tool-use", "a channel addresses a tool")
    final = [one.text for one in found if one.channel in ("final", "")]
    if not final and not found[-1].ended:
        raise RowFault("unfinished-thinking", f"the {found[-1].channel} channel has no end")
    analyses = [one.text for one in found if one.channel not in ("final", "")]
    return "\n\n".join(analyses), "\n\n".join(final)
