"""Rows of every accepted schema give the same trace."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.rows.schemas import Candidate, read_candidates, read_question
from pipeline.corpus.rows.text import RowFault

Q, THINK, SAY, GOLD = "What is 2 + 2?", "Two and two.", "So \\boxed{4}.", "4"
FULL = f"<think>{THINK}</think>{SAY}"
ASKED = {"role": "user", "content": Q}


def one(row: dict[str, Any]) -> Candidate:
    found = read_candidates(row)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("row", "schema"),
    [
        ({"problem": Q, "solution": FULL, "answer": GOLD}, "problem/solution/answer"),
        ({"Problem": Q, "Solution": FULL, "Answer": 4}, "problem/solution/answer"),
        (
            {"question": Q, "response": FULL, "final_answer": ["4"]},
            "question/response/final_answer",
        ),
        ({"instruction": Q, "input": "", "output": FULL, "gold": 4.0}, "instruction/output/gold"),
        ({"prompt": Q, "completion": FULL, "target": "\\boxed{4}"}, "prompt/completion/target"),
        (
            {"messages": [ASKED, {"role": "assistant", "content": FULL}], "gt": GOLD},
            "messages/gt",
        ),
        (
            {
                "conversations": [
                    {"from": "human", "value": Q},
                    {"from": "gpt", "value": FULL},
                ],
                "answer": GOLD,
            },
            "conversations/answer",
        ),
        (
            {
                "prompt": [ASKED],
                "completion": [{"role": "assistant", "content": FULL}],
                "reward_model": {"style": "rule", "ground_truth": GOLD},
            },
            "prompt/completion/reward_model.ground_truth",
        ),
        (
            {
                "problem": Q,
                "gtruth_answer": GOLD,
                "message_thinking": THINK,
                "message_content": SAY,
            },
            "problem/message_content/gtruth_answer",
        ),
        (
            {
                "question": Q,
                "solution": "Another way, \\boxed{5}.",
                "x_thinking_trajectory": THINK,
                "x_attempt": SAY,
                "metadata": {"answer": GOLD},
            },
            "question/x_attempt/metadata.answer",
        ),
        (
            {
                "conversations": [{"from": "human", "value": Q}],
                "chosen": {"from": "gpt", "value": FULL},
                "rejected": {"from": "gpt", "value": "no"},
                "answer": GOLD,
            },
            "conversations/chosen/answer",
        ),
        ({"problem": Q, "solution": SAY, "thinking": THINK, "answer": GOLD}, None),
    ],
)
def test_schemas_agree(row: dict[str, Any], schema: str | None) -> None:
    nulls = {"messages": None, "conversations": [], "problem_text": "", "output_text": None}
    for given_row in (
        row,
        nulls | row,
        row | {key: nulls[key] for key in nulls.keys() - row.keys()},
    ):
        found = one(given_row)
        assert (found.problem, found.thinking, found.solution) == (Q, THINK, SAY)
        assert (found.gold, found.gold_from) == (GOLD, "stated")
        assert found.schema == (schema or found.schema)


def test_school_arithmetic_rows() -> None:
    found = one({"question": Q, "answer": "2 + 2 = <<2+2=4>>4\n#### 4"})
    assert (found.solution, found.gold) == ("2 + 2 = 4\n\n\\boxed{4}", "4")
    assert (found.schema, found.gold_from) == ("question/answer", "stated")


def test_the_gold_of_another_solution_or_of_the_own_box() -> None:
    reference = {"problem": Q, "generation": SAY, "solution": "Clearly \\boxed{5}."}
    assert (one(reference).gold, one(reference).gold_from) == ("5", "reference")
    own = {"problem": Q, "solution": SAY}
    assert (one(own).gold, one(own).gold_from) == ("4", "own-box")
    none = {"problem": Q, "solution": "It is four."}
    assert (one(none).gold, one(none).gold_from) == ("", "none")


def test_a_row_of_several_generations_is_several_traces() -> None:
    row = {"problem": Q, "answer": GOLD, "generations": [FULL, "<think>x</think>\\boxed{5}"]}
    assert [found.thinking for found in read_candidates(row)] == [THINK, "x"]


def test_ids_judgements_and_the_input_of_an_instruction() -> None:
    found = one({"id": 7, "instruction": "Add.", "input": "2 and 2", "output": SAY, "label": False})
    assert (found.row_id, found.verified) == ("7", "wrong")
    assert found.problem == "Add.\n\n2 and 2"


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"text": "hello"}, "no-schema"),
        ({"problem": None, "messages": []}, "no-schema"),
        ({"problem": {"a": 1}, "solution": SAY}, "wrong-type"),
        ({"problem": Q, "solution": SAY, "answer": True}, "wrong-type"),
        ({"problem": Q, "solution": "<think>for ever"}, "unfinished-thinking"),
        ({"messages": [ASKED, ASKED]}, "multi-turn"),
    ],
)
def test_rows_without_a_trace_are_refused(row: dict[str, Any], code: str) -> None:
    with pytest.raises(RowFault) as caught:
        read_candidates(row)
    assert caught.value.reason == code


@pytest.mark.parametrize(
    "row",
    [
        {"problem": Q, "answer": 4},
        {"question": Q, "answer": "2+2=4\n#### 4"},
        {"prompt": [ASKED], "reward_model": {"ground_truth": '["4"]'}},
        {
            "prompt": f"<|im_start|>user\n{Q}<|im_end|>\n",
            "reference_solution": "\\boxed{4}\n#### 4",
        },
        {"messages": [ASKED, {"role": "assistant", "content": "<think>cut"}], "answer": "4"},
        {"input": Q, "code": "print(4)", "target": 4.0},
        {"problem": Q, "solution": SAY},
    ],
)
def test_panel_rows_need_problem_and_gold_alone(row: dict[str, Any]) -> None:
    assert read_question(row) == (Q, GOLD)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "from", "value", "type", "text", "ground_truth"]),
            inner,
        )
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    "problem question messages conversations prompt completion answer solution generations "
    "thinking reward_model metadata instruction input id chosen x_thinking x_content".split()
)


@given(st.dictionaries(KEYS, JSON, max_size=5))
def test_any_row_is_read_or_refused_with_a_reason(row: dict[str, Any]) -> None:
    told = []
    for reader in (read_candidates, read_question):
        try:
            assert reader(row)
        except RowFault as fault:
            told.append(fault.reason and fault.detail)
    assert all(told)
