"""Markdown pieces survive hostile text and missing figures."""

from __future__ import annotations

import pytest

from pipeline.summary.markdown import clipped, fenced, interval, percent, quoted, table, whole


def test_figures_that_are_missing_are_said_to_be() -> None:
    assert percent(None) == "not measured"
    assert whole(None) == "not recorded"
    assert interval(None) == interval([None, None]) == "–"  # type: ignore[list-item]
    assert (percent(0.0), whole(0)) == ("0.0 %", "0")


def test_interval_in_percent() -> None:
    assert interval([0.108, 0.6033]) == "10.8–60.3 %"


def test_table_cells_cannot_break_the_table() -> None:
    lines = table(("a", "b"), [("x|y", "two\nlines")], "lr")
    assert lines == ["| a | b |", "| --- | ---: |", "| x\\|y | two lines |", ""]


@pytest.mark.parametrize("text", ["plain", "```\nfence\n```", "a ```` b"])
def test_no_text_can_close_its_fence(text: str) -> None:
    opening, *inside, closing, _ = fenced(text)
    assert opening == closing + "text"
    assert set(closing) == {"`"}
    assert all(closing not in line for line in inside)


def test_long_text_loses_its_middle_and_says_how_much() -> None:
    text = "a" * 600 + "b" * 500 + "c" * 300
    assert clipped(text) == f"{'a' * 600}\n[… 500 characters …]\n{'c' * 300}"
    assert clipped("a" * 950) == "a" * 950


def test_quote_keeps_blank_lines_inside() -> None:
    assert quoted("one\n\ntwo") == ["> one", ">", "> two", ""]
