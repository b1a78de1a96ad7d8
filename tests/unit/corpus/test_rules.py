"""Each rule drops its own kind of row and leaves a sound one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from pipeline.base.chat import Chat
from pipeline.corpus.rules import RULES, Settings, boxed_answers, first_fault, settings_for
from pipeline.corpus.schemas import Candidate
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_tokenizer

SETTINGS = Settings(make_params().filter, re.compile(re.escape("<|im_end|>")))
SOUND = Candidate(
    problem="What is $2n + 2n$ for $n = 1$?",
    gold="4",
    gold_from="stated",
    thinking="",
    solution="Two and two make four, so the answer is \\boxed{4}.",
    schema="problem/solution/answer",
    row_id="",
    judged_wrong=False,
)

FAULTS: dict[str, dict[str, Any]] = {
    "no-problem": {"problem": ""},
    "no-solution": {"solution": ""},
    "nothing-after-thinking": {"solution": "", "thinking": "It must be \\boxed{4}."},
    "special-token": {"solution": SOUND.solution + "<|im_end|> more"},
    "no-box": {"solution": "Two and two make four. Answer: 4", "thinking": "\\boxed{4}"},
    "no-gold": {"gold": "", "gold_from": "none"},
    "unreadable-gold": {"gold": "\\frac{1}{2"},
    "gold-symbols": {"gold": "4k + 1"},
    "labelled-wrong": {"gold_from": "own-box", "judged_wrong": True},
    "several-boxes": {"solution": "Either \\boxed{3} or rather, I think, \\boxed{4}."},
    "wrong-answer": {"gold": "5"},
    "too-short": {"solution": "\\boxed{4}"},
    "not-english": {"thinking": "我们先把两个数相加，然后得到四。"},
}


def test_a_sound_row_passes() -> None:
    assert first_fault(SOUND, SETTINGS) is None


@pytest.mark.parametrize("code", FAULTS)
def test_each_rule_gives_its_reason_and_a_detail(code: str) -> None:
    found = first_fault(replace(SOUND, **FAULTS[code]), SETTINGS)
    assert found is not None
    assert found[0] == code
    assert found[1]


def test_every_rule_is_tested_and_says_what_it_means() -> None:
    assert [rule.code for rule in RULES] == list(FAULTS)
    assert all(rule.meaning.endswith(".") for rule in RULES)


@pytest.mark.parametrize(
    "change",
    [
        {"solution": "It is \\boxed{4}, once more \\boxed{4.0}, that is all."},
        {
            "solution": "Fill \\boxed{\\phantom{2}}: with \\boxed{4}.",
            "problem": "Fill \\boxed{\\phantom{2}}",
        },
        {"gold": "B", "solution": "The right choice is \\boxed{B}, as shown."},
        {"gold": "4 m", "solution": "The length that we want is \\boxed{4 m}."},
        {"gold": "2n", "solution": "The sum is therefore \\boxed{2n}, as shown."},
        {"gold": "x + e^{i\\pi}", "solution": "It is \\boxed{x + e^{i\\pi}} as shown."},
        {"solution": "\\boxed{4}", "thinking": "Two and two make four."},
        {"judged_wrong": True},
    ],
)
def test_rules_leave_what_only_looks_wrong(change: dict[str, Any]) -> None:
    assert first_fault(replace(SOUND, **change), SETTINGS) is None


def test_other_languages_stay_if_the_run_wants_them() -> None:
    settings = replace(SETTINGS, filter=make_params(**{"filter.english_only": False}).filter)
    assert first_fault(replace(SOUND, **FAULTS["not-english"]), settings) is None


def test_boxes_are_read_in_order_and_in_bounded_time() -> None:
    assert boxed_answers("\\boxed{1} \\boxed{\\frac{2}{3}} \\boxed{") == ["1", "\\frac{2}{3}"]
    assert len(boxed_answers("\\boxed{1} " * 20_000)) == 20


def test_control_tokens_come_from_the_tokenizer(tmp_path: Any) -> None:
    write_tiny_tokenizer(tmp_path)
    params = make_params()
    settings = settings_for(Chat(tmp_path, params.prompt), params.filter)
    assert settings.markup.search("a <|im_start|> b")
    assert not settings.markup.search("a < b and [0, 1] > c")
