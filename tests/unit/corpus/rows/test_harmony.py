"""Harmony channels become reasoning and reply, in text, in turns and in what decoding left."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.corpus.rows.replies import split_reply
from pipeline.corpus.rows.schemas import read_candidates
from pipeline.corpus.rows.text import RowFault

FINAL = "<|start|>assistant<|channel|>final<|message|>It is \\boxed{4}.<|return|>"
BOTH = ("hm", "It is \\boxed{4}.")


@pytest.mark.parametrize(
    "text",
    [
        f"<|channel|>analysis<|message|>hm<|end|>{FINAL}",
        f"<|start|>assistant<|channel|>analysis<|message|>hm<|end|>{FINAL}",
        "<|channel|>analysis<|message|>hm<|end|><|channel|>final<|message|>It is \\boxed{4}.",
        f"<|channel|>analysis<|message|>hm{FINAL}",
        "analysishmassistantfinalIt is \\boxed{4}.",
    ],
)
def test_forms_of_channels_agree(text: str) -> None:
    assert split_reply(text) == BOTH


def test_several_analyses_are_one_reasoning_and_a_final_alone_has_none() -> None:
    text = "<|channel|>analysis<|message|>a<|end|><|channel|>commentary<|message|>b<|end|>"
    assert split_reply(text + FINAL) == ("a\n\nb", BOTH[1])
    assert split_reply(FINAL) == ("", BOTH[1])
    assert split_reply("<|channel|>analysis<|message|>all<|end|>") == ("all", "")
    assert split_reply("analysis of the sum: 4") == ("", "analysis of the sum: 4")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<|channel|>analysis<|message|>never ends", "unfinished-thinking"),
        (f"<|channel|>commentary to=functions.run<|message|>{{}}<|call|>{FINAL}", "tool-use"),
    ],
)
def test_other_channels_are_refused(text: str, code: str) -> None:
    with pytest.raises(RowFault) as caught:
        split_reply(text)
    assert caught.value.reason == code


USER = {"role": "user", "content": "2 + 2?"}
TURNS = [
    USER,
    {"role": "assistant", "channel": "analysis", "content": "hm"},
    {"role": "assistant", "channel": "final", "content": BOTH[1]},
]
RENDERED = (
    "<|start|>system<|message|>Be brief.<|end|><|start|>user<|message|>2 + 2?<|end|>"
    f"<|start|>assistant<|channel|>analysis<|message|>hm<|end|>{FINAL}"
)


@pytest.mark.parametrize(
    "row",
    [
        {"messages": TURNS},
        {"messages": [USER, {"role": "assistant", "thinking": "hm", "content": BOTH[1]}]},
        {"prompt": [USER], "completion": TURNS[1:]},
        {"text": RENDERED},
        {
            "prompt": RENDERED.partition("<|start|>assistant")[0],
            "completion": FINAL,
            "thinking": "hm",
        },
    ],
)
def test_rows_with_channels(row: dict[str, Any]) -> None:
    found = read_candidates(row)[0]
    assert (found.problem, found.thinking, found.solution) == ("2 + 2?", *BOTH)


def test_a_turn_that_addresses_a_tool_is_no_reply() -> None:
    call = {"role": "assistant", "channel": "commentary to=functions.run", "content": "{}"}
    for turns in ([*TURNS[:2], call, TURNS[2]], [USER, call | {"channel": "", "recipient": "x"}]):
        with pytest.raises(RowFault, match="tool-use"):
            read_candidates({"messages": turns})
