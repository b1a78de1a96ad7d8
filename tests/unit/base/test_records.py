"""Rows keep their shape from stage to stage; equal problems get equal ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.base.records import (
    EXCERPT_CHARACTERS,
    Dropped,
    Problem,
    Sample,
    Trace,
    excerpt,
    from_line,
    normalise_problem,
    problem_id,
    read_rows,
    to_line,
    write_rows,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SHARE = st.floats(allow_nan=False, allow_infinity=False)
TRACES = st.builds(
    Trace, *[TEXT] * 7, st.integers(-(2**62), 2**62), TEXT, TEXT, st.none() | SHARE, SHARE
)
PROBLEM = Problem("1f", "2 + 2 = ?", "4", "a.jsonl", "a.jsonl:1")


def fields_of(row: Any) -> dict[str, Any]:
    """A row as a JSON object."""
    value: dict[str, Any] = json.loads(to_line(row))
    return value


@given(TRACES)
def test_any_trace_comes_back(row: Trace) -> None:
    assert from_line(Trace, to_line(row), "here") == row


@pytest.mark.parametrize(
    "row",
    [
        PROBLEM,
        Trace("1f", "p", "4", "", "s", "f", "f:1", 12, "1f", "hard", 0.25, 1.0),
        Dropped("f:1", "f", "no-box", "", "the start"),
        Sample("1f", 0, "main", "p", "r", 3, False, "4", "4", True, "match-exact"),
    ],
)
def test_rows_go_through_a_file(tmp_path: Path, row: Any) -> None:
    assert write_rows(tmp_path / "rows.jsonl", [row, row]) == 2
    assert list(read_rows(type(row), tmp_path / "rows.jsonl")) == [row, row]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"gold": None}, "`gold` = None: input should be a valid string"),
        ({"gold": 4}, "`gold` = 4: input should be a valid string"),
        ({"extra": "x"}, "unknown field `extra`"),
    ],
)
def test_a_row_of_another_shape_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=f"rows.jsonl:7: {told}"):
        from_line(Problem, json.dumps(fields_of(PROBLEM) | change), "rows.jsonl:7")


def test_a_missing_field_and_a_row_that_is_no_object_are_refused() -> None:
    value = fields_of(PROBLEM)
    del value["gold"]
    with pytest.raises(UserError, match="missing field `gold`"):
        from_line(Problem, json.dumps(value), "x")
    with pytest.raises(UserError, match="must be an object"):
        from_line(Problem, json.dumps([value]), "x")


def test_a_sample_of_a_version_without_variants_is_refused() -> None:
    sample = fields_of(Sample("1f", 0, "main", "p", "r", 3, False, "4", "4", True, "match-exact"))
    del sample["variant"]
    with pytest.raises(UserError, match=r"samples\.jsonl:1: missing field `variant`"):
        from_line(Sample, json.dumps(sample), "samples.jsonl:1")


def test_true_is_no_number_and_one_is_not_true() -> None:
    sample = fields_of(Sample("1f", 0, "main", "p", "r", 3, False, "4", "4", True, "match-exact"))
    with pytest.raises(UserError, match="`tokens` = True"):
        from_line(Sample, json.dumps(sample | {"tokens": True}), "x")
    with pytest.raises(UserError, match="`correct` = 1"):
        from_line(Sample, json.dumps(sample | {"correct": 1}), "x")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is  2 + 2?", "what is 2 + 2"),
        ("Find $x$\nif $x+1=2$.", "find x if x+1=2"),
        ("Find\u00a0\uff58", "find x"),
        (r"\left( 1,\, 2 \right)", "( 1, 2 )"),
        ("cafe\u0301", "café"),
    ],
)
def test_the_same_problem_written_in_two_ways(one: str, other: str) -> None:
    assert problem_id(one) == problem_id(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is 2 + 2?", "What is 2 + 3?"),
        ("What is 2 + 2?", "What is 2 - 2?"),
        ("Find x < 3", "Find x > 3"),
        ("12 apples", "1 2 apples"),
    ],
)
def test_problems_that_differ_in_a_number_or_a_sign_stay_apart(one: str, other: str) -> None:
    assert problem_id(one) != problem_id(other)


@given(TEXT)
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = normalise_problem(text)
    assert normalise_problem(once) == once


def test_an_id_is_16_hexadecimal_digits() -> None:
    assert len(problem_id("x")) == 16
    int(problem_id("x"), 16)


def test_an_excerpt_is_one_short_line() -> None:
    assert excerpt("a\n  b") == "a b"
    long = excerpt("word " * 100)
    assert len(long) == EXCERPT_CHARACTERS
    assert long.endswith("…")
