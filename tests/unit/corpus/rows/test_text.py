"""Strings of a row: cleaned by rule, or refused with a code."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.rows.text import (
    MAX_DEPTH,
    RowFault,
    as_text,
    beyond_ascii,
    clean_text,
    clean_value,
    number_text,
    printable,
)

ANY_TEXT = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=60)


@given(ANY_TEXT)
def test_cleaned_text_can_be_encoded_and_has_no_stray_character(text: str) -> None:
    codes = "nul-character|control-character|lone-surrogate"
    try:
        cleaned = clean_text(text)
    except RowFault:
        with pytest.raises(RowFault, match=codes):
            clean_text(text)
        return
    cleaned.encode("utf-8")
    assert not set(cleaned) & {"\r", "\x00", "\ufeff", "\x1b"}
    assert clean_text(cleaned) == cleaned


@given(ANY_TEXT)
def test_what_lies_beyond_ascii_keeps_its_order(text: str) -> None:
    assert beyond_ascii(text) == "".join(one for one in text if not one.isascii())


@given(ANY_TEXT)
def test_printable_text_is_always_strict_utf8(text: str) -> None:
    assert "\x00" not in printable(text).encode("utf-8").decode("utf-8")


def test_line_ends_of_all_systems_give_the_same_text() -> None:
    assert clean_text("a\r\nb\rc\n") == clean_text("a\nb\nc\n") == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("damaged", "mended"),
    [("\x0crac{1}{2}", "\\frac{1}{2}"), ("\x08oxed{4}", "\\boxed{4}"), ("\x0bec v", "\\vec v")],
)
def test_a_backslash_lost_in_an_escape_comes_back(damaged: str, mended: str) -> None:
    assert clean_text(damaged) == mended


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a\x00b", "nul-character"),
        ("a\x1b[0m", "control-character"),
        ("page\x0c2", "control-character"),
        ("a\x85b", "control-character"),
        ("x\ud83d", "lone-surrogate"),
    ],
)
def test_damaged_text_is_refused_with_its_code(text: str, code: str) -> None:
    with pytest.raises(RowFault) as caught:
        clean_value({"deep": [{"text": text}]})
    assert caught.value.reason == code


def test_nulls_are_absent_and_infinities_refused() -> None:
    assert clean_value({"a": None, "b": [None, 1], "c": {"d": None}}) == {"b": [None, 1], "c": {}}
    with pytest.raises(RowFault, match="not-finite"):
        clean_value({"score": float("inf")})


def test_numbers_are_written_as_answers() -> None:
    assert [number_text(n) for n in (33, 27.0, 0.5, -9867630.0, Decimal("4.0"))] == [
        *("33", "27", "0.5", "-9867630", "4"),
    ]


def test_content_parts_join_and_other_types_are_refused() -> None:
    assert as_text([{"type": "text", "text": "a"}, "b", {"type": "text", "value": "c"}], "x") == (
        "a\nb\nc"
    )
    for value, code in (
        (True, "wrong-type"),
        ({"k": 1}, "wrong-type"),
        ([3], "wrong-type"),
        ([{"type": "image", "url": "u"}], "not-text"),
        ([{"type": ["text"], "text": "a"}], "not-text"),
        ([{"type": "text"}], "wrong-type"),
        ([{"type": "reasoning", "text": "hm"}], "wrong-type"),
    ):
        with pytest.raises(RowFault) as caught:
            as_text(value, "x")
        assert caught.value.reason == code, value


@pytest.mark.parametrize("level", [lambda one: [one], lambda one: {"a": one}])
def test_nesting_has_an_end(level: Callable[[Any], Any]) -> None:
    value: Any = "x"
    for _ in range(MAX_DEPTH):
        value = level(value)
    assert clean_value(value) == value
    with pytest.raises(RowFault, match="not-json"):
        clean_value(level(value))


@given(ANY_TEXT)
def test_the_fast_path_leaves_what_the_slow_one_would(text: str) -> None:
    odd = [c for c in text if unicodedata.category(c) in ("Cc", "Cs") and c not in "\t\n\r"]
    try:
        cleaned = clean_text(text)
    except RowFault:
        assert odd
        return
    plain = text.replace("\r\n", "\n").replace("\r", "\n").replace("\ufeff", "")
    assert cleaned == plain or set(odd) <= set("\x07\x08\x0b\x0c")
    assert not odd or cleaned != text
