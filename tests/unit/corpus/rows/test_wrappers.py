"""Instructions around a problem go, problems that sound like instructions stay."""

from __future__ import annotations

import pytest

from pipeline.corpus.rows.wrappers import chat_markup_turns, strip_wrapper

PROBLEM = "Find $n$ if $n + \\frac{1}{2} = 3$."


@pytest.mark.parametrize(
    "wrapped",
    [
        "Solve the following math problem step by step. The last line of your response should be "
        "of the form Answer: $Answer (without quotes) where $Answer is the answer to the problem."
        f'\n\n{PROBLEM}\n\nRemember to put your answer on its own line after "Answer:".',
        f"{PROBLEM} Let's think step by step and output the final answer within \\boxed{{}}.",
        f"{PROBLEM}\nPlease reason step by step, and put your final answer within \\boxed{{}}.",
        f"Return your final response within \\boxed{{}}. {PROBLEM}",
        f"{PROBLEM}\n\nPresent the answer in LaTex format: \\boxed{{Your answer}}",
        f"{PROBLEM} Think step by step.",
        f"\n {PROBLEM}\n",
    ],
)
def test_the_problem_alone_is_left(wrapped: str) -> None:
    assert strip_wrapper(wrapped) == PROBLEM


@pytest.mark.parametrize(
    "problem",
    [
        "Solve $x^2 = 4$. Give the larger root.",
        "Put what number in the box so that $x + \\boxed{\\phantom{2}} = 3x$ has one solution?",
        "Write 2/5 as a decimal.",
        "Show that $a > b$, then find $a$.",
        "Think of a number. Double it. What is left if you take \\boxed{7} away?",
        "Please reason step by step.",
    ],
)
def test_problems_are_left_alone(problem: str) -> None:
    assert strip_wrapper(problem) == problem


def test_rendered_chat_markup_becomes_turns() -> None:
    text = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHow?<|im_end|>\n"
    turns = chat_markup_turns(text + "<|im_start|>assistant\n<think>\n")
    assert turns == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "How?"},
    ]
    assert chat_markup_turns("plain") is None


@pytest.mark.parametrize(
    "wrapped",
    [
        f"Question: {PROBLEM}\nAnswer:",
        f"Problem: {PROBLEM}\n\nSolution:",
        f"Q: {PROBLEM}\nA:",
        f"Return your final response within \\boxed{{}}. Question: {PROBLEM}",
        f"{PROBLEM}\n\nPlease put your final answer within \\boxed{{}}.\nAnswer:",
    ],
)
def test_labels_around_a_problem_go(wrapped: str) -> None:
    assert strip_wrapper(wrapped) == PROBLEM


def test_rendered_harmony_becomes_turns_with_channels() -> None:
    text = "<|start|>user<|message|>How?<|end|><|start|>assistant<|channel|>final<|message|>So."
    assert chat_markup_turns(text + "<|return|>") == [
        {"role": "user", "content": "How?", "channel": ""},
        {"role": "assistant", "content": "So.", "channel": "final"},
    ]
