"""Thinking on, off, left to the template or closed before the reply: prompt and reply of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.base.errors import UserError
from tests.support.prompts import (
    DROPS_THINKING,
    MARKED,
    OPENS_BLOCK,
    PROBLEM,
    SOLUTION,
    THINKING,
    chat_of,
    make_base,
)
from tests.support.tiny import CHATML

BLOCK = "<think>\n\n</think>\n\n"


@pytest.mark.parametrize("thinking", ["template", "on"])
def test_reasoning_is_learnt_inside_its_tags(tmp_path: Path, thinking: str) -> None:
    chat = chat_of(make_base(tmp_path, THINKING), thinking=thinking)
    assert chat.prompt_text(PROBLEM).endswith("<|im_start|>assistant\n")
    assert (
        chat.reply_text(" Add them.\n", SOLUTION) == f"<think>\nAdd them.\n</think>\n\n{SOLUTION}"
    )
    assert chat.reply_text("", f" {SOLUTION}\n") == SOLUTION


@pytest.mark.parametrize(
    ("template", "thinking", "end"),
    [
        (THINKING, "template", "assistant\n"),
        (THINKING, "on", "assistant\n"),
        (THINKING, "off", f"assistant\n{BLOCK}"),
        (THINKING, "empty-prefill", f"assistant\n{BLOCK}"),  # the template's own block
        (CHATML, "off", "assistant\n"),  # a template that knows no thinking
        (CHATML, "empty-prefill", f"assistant\n{BLOCK}"),
        (OPENS_BLOCK, "template", "assistant\n<think>\n"),
        (OPENS_BLOCK, "empty-prefill", f"assistant\n{BLOCK}"),
        (OPENS_BLOCK.replace("<think>\n", "<think>"), "empty-prefill", f"assistant\n{BLOCK}"),
    ],
)
def test_what_the_prompt_ends_with(tmp_path: Path, template: str, thinking: str, end: str) -> None:
    chat = chat_of(make_base(tmp_path, template), thinking=thinking)
    text = chat.prompt_text(PROBLEM)
    assert text == f"<|im_start|>user\n{chat.user_text(PROBLEM)}<|im_end|>\n<|im_start|>{end}"
    assert chat.prompt_ids(PROBLEM) == chat.tokenizer.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("thinking", ["off", "empty-prefill"])
def test_behind_a_closed_block_reasoning_is_visible(tmp_path: Path, thinking: str) -> None:
    chat = chat_of(make_base(tmp_path, THINKING), thinking=thinking)
    encoded = chat.encode(PROBLEM, "Add them.", SOLUTION)
    assert chat.decode(encoded.reply) == f"Add them.\n\n{SOLUTION}"
    block = chat.tokenizer.encode(BLOCK, add_special_tokens=False).ids
    assert encoded.prompt[-len(block) :] == block  # not trained


def test_a_block_that_the_template_closes_unasked_is_not_opened_again(tmp_path: Path) -> None:
    closed = OPENS_BLOCK.replace("<think>\n", "</think>")
    chat = chat_of(make_base(tmp_path, closed))
    assert chat.reply_text("Add them.", SOLUTION) == f"Add them.\n\n{SOLUTION}"


@pytest.mark.parametrize("opening", ["<think>\n", "<think>"])
@pytest.mark.parametrize("thinking", ["Add them.", ""])
def test_a_block_that_the_prompt_opened_is_not_opened_again(
    tmp_path: Path, opening: str, thinking: str
) -> None:
    chat = chat_of(make_base(tmp_path, OPENS_BLOCK.replace("<think>\n", opening)))
    whole = chat.prompt_text(PROBLEM) + chat.reply_text(thinking, SOLUTION)
    assert whole.endswith(f"assistant\n<think>\n{thinking}\n</think>\n\n{SOLUTION}")


@pytest.mark.parametrize(
    ("template", "thinking", "remedy"),
    [
        (OPENS_BLOCK, "off", "leaves the thinking block open. Set .* template or empty-prefill"),
        (OPENS_BLOCK.replace("<think>", "</think>"), "on", "leaves the thinking block closed"),
    ],
)
def test_a_template_that_contradicts_the_mode_is_refused(
    tmp_path: Path, template: str, thinking: str, remedy: str
) -> None:
    with pytest.raises(UserError, match=remedy):
        chat_of(make_base(tmp_path, template), thinking=thinking)


@pytest.mark.parametrize("thinking", ["template", "on", "off", "empty-prefill"])
@pytest.mark.parametrize("thought", ["", "Add them."])
@pytest.mark.parametrize("template", [CHATML, MARKED, THINKING, OPENS_BLOCK, DROPS_THINKING])
def test_the_first_trained_token_is_the_first_of_the_reply(
    tmp_path: Path, template: str, thought: str, thinking: str
) -> None:
    """B03 and B04: whatever the template does to a whole conversation."""
    if (template, thinking) == (OPENS_BLOCK, "off"):
        thinking = "empty-prefill"
    chat = chat_of(make_base(tmp_path, template), thinking=thinking)
    encoded = chat.encode(PROBLEM, thought, SOLUTION)
    assert encoded.prompt == chat.prompt_ids(PROBLEM)
    learnt = chat.tokenizer.decode(encoded.reply, skip_special_tokens=False)
    assert learnt == chat.reply_text(thought, SOLUTION) + "<|im_end|>"
    assert learnt.endswith(f"{SOLUTION}<|im_end|>")
    assert BLOCK not in learnt
