"""What the rules need to know besides the row.

Read by the modules of rules; reads and writes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.base.chat import Chat
from pipeline.base.params import FilterParams


@dataclass(frozen=True)
class Settings:
    """One run's settings for every row; it can be sent to other processes."""

    filter: FilterParams
    markup: re.Pattern[str]
    """Text that the tokenizer would turn into one of its control tokens."""
    openings: tuple[str, ...] = ("",)
    """Beginnings of those tokens; a text without any of them is not searched."""


def settings_for(chat: Chat, params: FilterParams) -> Settings:
    """The rules' settings for one tokenizer."""
    added = [token.content for token in chat.tokenizer.get_added_tokens_decoder().values()]
    control = sorted({text for text in added if text.startswith(("<", "[")) and len(text) > 2})
    markup = re.compile("|".join(map(re.escape, control)) or r"(?!)")
    return Settings(params, markup, tuple(sorted({text[:2] for text in control})))
