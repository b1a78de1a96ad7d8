"""What a tool wrote inside a reply: found in the text, and taken from the loss by tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.packing.tool_spans import tool_spans, touched_tokens

CODE = "```python\nprint(1)\n```\n"


def found(text: str) -> list[str]:
    return [text[start:stop] for start, stop in tool_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Run it.\n{CODE}<output>\n1\n</output>\nSo 1.", ["<output>\n1\n</output>"]),
        (f"{CODE}\n\n```output\n1\n```\nSo 1.", ["```output\n1\n```"]),
        (f"{CODE}``` output\n1\n2\n```", ["``` output\n1\n2\n```"]),
        ("  ```py\nx\n  ```\n  ```output\n1\n  ```\nend", ["  ```output\n1\n  ```"]),
        ("~~~py\nx\n~~~\n~~~output\n1\n~~~", ["~~~output\n1\n~~~"]),
        ("````py\n```\n````\n```output\n1\n```", ["```output\n1\n```"]),
        ("<code>x</code>\n<output>1</output>, so", ["<output>1</output>"]),
        (f"{CODE}<output>never closed", ["<output>never closed"]),
        (f"{CODE}```output\n1\n", ["```output\n1\n"]),
        (f"{CODE}<output>1</output>a{CODE}", ["<output>1</output>"]),
        (
            f"a\n{CODE}<output>1</output>\nb\n{CODE}<output>2</output>",
            ["<output>1</output>", "<output>2</output>"],
        ),
        (
            "Call <|tool_call|>f(1)<|tool_response|>1<|tool_response_end|> so",
            ["<|tool_call|>", "<|tool_response|>1<|tool_response_end|>"],
        ),
        ("a<|tool_output|>1<|/tool_output|>b", ["<|tool_output|>1<|/tool_output|>"]),
        ("a<|python_tag|>x = 1", ["<|python_tag|>"]),
        (
            "a<|tool▁outputs▁begin|>1<|tool▁outputs▁end|>b",
            ["<|tool▁outputs▁begin|>1<|tool▁outputs▁end|>"],
        ),
    ],
)  # fmt: skip
def test_spans_that_a_tool_wrote(text: str, expected: list[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The tag <output>1</output> stands for the result.",
        f"{CODE}It prints\n<output>1</output>",
        f"{CODE}The output is 1.",
        "An output of 3.",
        "```output_layer\n1\n```",
        "He said <|note|> and |x| < |y|.",
        "The set {x | x < 1} and <|end|>.",
    ],
)
def test_the_same_words_elsewhere_are_text(text: str) -> None:
    assert tool_spans(text) == []


@given(st.text(alphabet="`~\n <output>/|_tool end", max_size=80))
def test_spans_ascend_inside_the_text(text: str) -> None:
    places = [place for span in tool_spans(text) for place in span]
    assert places == sorted(places)
    assert all(0 <= place <= len(text) for place in places)


def test_a_token_that_straddles_a_border_is_touched() -> None:
    # "ab[cd]ef" in tokens "a", "bc", "d", "e", "f"
    offsets = [(0, 1), (1, 3), (3, 4), (4, 5), (5, 6)]
    assert touched_tokens(offsets, [(2, 4)], 6) == [(1, 3)]
    assert touched_tokens(offsets, [(1, 3)], 6) == [(1, 2)]
    assert touched_tokens(offsets, [(0, 1), (5, 6)], 6) == [(0, 1), (4, 5)]


def test_all_bytes_of_a_character_go_together() -> None:
    # One character in tokens 1 and 2, the second of which reaches into the span.
    offsets = [(0, 1), (1, 2), (1, 3), (3, 4)]
    assert touched_tokens(offsets, [(2, 3)], 4) == [(1, 3)]


def test_blanks_that_no_token_claims_count_to_both_neighbours() -> None:
    # "a  b": the offsets of the second token leave its blanks out; a third is blank and empty.
    assert touched_tokens([(0, 1), (3, 4)], [(1, 2)], 4) == [(0, 2)]
    assert touched_tokens([(0, 1), (1, 1), (3, 4)], [(1, 3)], 4) == [(1, 3)]
    assert touched_tokens([(0, 1), (3, 4)], [(3, 4)], 4) == [(1, 2)]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.data())
def test_touched_is_what_shares_a_character(sizes: list[int], data: st.DataObject) -> None:
    stops = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    offsets = list(zip([0, *stops], stops))
    a, b = sorted((data.draw(st.integers(0, stops[-1])), data.draw(st.integers(0, stops[-1]))))
    runs = touched_tokens(offsets, [(a, b)] if a < b else [], stops[-1])
    touched = {n for start, stop in runs for n in range(start, stop)}
    assert touched == {n for n, (x, y) in enumerate(offsets) if x < b and a < y and a < b}
