"""Conversations: one question and one reply, whatever the key names."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.corpus.rows.text import RowFault
from pipeline.corpus.rows.turns import Reply, is_turns, read_turn, single_question


def ask(*turns: dict[str, Any]) -> tuple[str, Reply | None]:
    return single_question([read_turn(turn) for turn in turns])


@pytest.mark.parametrize(
    "reply",
    [
        {"role": "assistant", "content": "<think>hm</think>4"},
        {"from": "gpt", "value": "<think>hm</think>4"},
        {"role": "assistant", "content": "4", "reasoning_content": "hm"},
        {"role": "assistant", "content": "4", "thinking": "hm", "tool_calls": []},
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "value": "hm"}, {"type": "text", "value": "4"}],
        },
    ],
)
def test_forms_of_a_reply_agree(reply: dict[str, Any]) -> None:
    question = {"role": "user", "content": [{"type": "text", "text": "2 + 2?"}]}
    assert ask({"role": "system", "content": "s"}, question, reply) == ("2 + 2?", Reply("hm", "4"))


def test_a_question_alone_has_no_reply() -> None:
    assert ask({"from": "human", "value": "2 + 2?"}) == ("2 + 2?", None)


USER, REPLY = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    ("turns", "code"),
    [
        ([USER, REPLY, USER, REPLY], "multi-turn"),
        ([REPLY], "multi-turn"),
        ([{"role": "system", "content": "s"}], "multi-turn"),
        ([USER, {"role": "tool", "content": "4"}], "tool-use"),
        ([USER, {"from": "function_call", "value": "{}"}], "tool-use"),
        ([USER, {"role": "assistant", "tool_calls": [{"id": 1}]}], "tool-use"),
    ],
)
def test_other_conversations_are_refused(turns: list[dict[str, Any]], code: str) -> None:
    with pytest.raises(RowFault) as caught:
        ask(*turns)
    assert caught.value.reason == code


def test_only_lists_of_messages_are_conversations() -> None:
    assert is_turns([USER])
    for value in ([], "text", [1], [{"type": "text"}], None, {"role": "user"}):
        assert not is_turns(value)
