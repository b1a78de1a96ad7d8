"""Reasoning and visible reply are told apart in every spelling, or the row is refused."""

from __future__ import annotations

import pytest

from pipeline.corpus.rows.replies import split_hashes, split_reply, worked_solution
from pipeline.corpus.rows.text import RowFault


@pytest.mark.parametrize(
    "text",
    [
        "<think>\nhm\n</think>\n\nIt is 4.",
        "hm</think>It is 4.",
        "<think>hm</think><answer>It is 4.</answer>",
        "<|begin_of_thought|>hm<|end_of_thought|><|begin_of_solution|>It is 4.<|end_of_solution|>",
        "<thinking>hm</thinking>\nIt is 4.<|im_end|>\n",
    ],
)
def test_spellings_of_thinking_agree(text: str) -> None:
    assert split_reply(text) == ("hm", "It is 4.")


def test_thinking_in_a_field_is_taken_with_or_without_tags() -> None:
    assert split_reply("It is 4.", "<think>hm</think>") == ("hm", "It is 4.")
    assert split_reply("<think>hm</think>It is 4.", "hm") == ("hm", "It is 4.")
    assert split_reply("<think>\n</think>It is 4.") == ("", "It is 4.")
    assert split_reply("<think>all the work</think>") == ("all the work", "")


@pytest.mark.parametrize(
    ("text", "field", "code"),
    [
        ("<think>hm", "", "unfinished-thinking"),
        ("<think>a</think>b<think>c", "", "unfinished-thinking"),
        ("<think>a</think>b<think>c</think>d", "", "malformed-thinking"),
        ("First, <think>a</think>b", "", "malformed-thinking"),
        ("<think>a</think>b", "other", "malformed-thinking"),
    ],
)
def test_broken_thinking_is_refused(text: str, field: str, code: str) -> None:
    with pytest.raises(RowFault) as caught:
        split_reply(text, field)
    assert caught.value.reason == code


def test_school_arithmetic_marks_become_text_and_a_box() -> None:
    text = "She sold 48/2 = <<48/2=24>>24 clips.\nThat is 1,024.\n#### 1,024"
    solution = "She sold 48/2 = 24 clips.\nThat is 1,024.\n\n\\boxed{1,024}"
    assert worked_solution(text) == solution
    assert worked_solution("done \\boxed{7}\n#### 7") == "done \\boxed{7}"


def test_headings_are_no_answers() -> None:
    text = "#### Step 1\nAdd.\n\\boxed{4}"
    assert split_hashes(text) == (text, None)
    assert worked_solution(text) == text
