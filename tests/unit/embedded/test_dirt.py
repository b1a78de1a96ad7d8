"""Each kind of dirt has its one fault and no other."""

from __future__ import annotations

import json
from itertools import islice
from random import Random
from typing import Any

import pytest

from pipeline.base.grading import grade, last_boxed
from pipeline.base.records import normalise_problem
from pipeline.embedded.dirt import SHARES, clean, panel_copies
from pipeline.embedded.sums import Sum, draw

SUMS = list(islice(draw(11), 60))
UNREADABLE = ("broken_line", "not_a_number", "lone_surrogate")


def rows(kind: str) -> list[tuple[Sum, dict[str, Any]]]:
    make = clean if kind == "clean" else SHARES[kind][0]
    random = Random(1)
    return [(item, json.loads(make(item, random))) for item in SUMS]


def lines(kind: str) -> list[str]:
    random = Random(1)
    return [SHARES[kind][0](item, random) for item in SUMS]


def refuse(name: str) -> None:
    raise ValueError(name)


@pytest.mark.parametrize("kind", [kind for kind in SHARES if kind not in UNREADABLE])
def test_problem_and_gold_stay_right(kind: str) -> None:
    for item, row in rows(kind):
        assert row["problem"] == item.question
        assert row["answer"] == str(item.answer)
        assert row["solution"] != item.solution


def test_clean_rows_are_right() -> None:
    assert all(grade(row["solution"], row["answer"]).correct for _, row in rows("clean"))


def test_wrong_answers_have_one_box_with_another_value() -> None:
    for _, row in rows("wrong_answer"):
        verdict = grade(row["solution"], row["answer"])
        assert not verdict.correct
        assert row["solution"].count("\\boxed{") == 1
        assert f"= {verdict.answer}.\nThe answer" in row["solution"]


def test_unboxed_rows_still_state_the_answer() -> None:
    for item, row in rows("no_box"):
        assert last_boxed(row["solution"]) is None
        assert row["solution"].endswith(f"The answer is {item.answer}.")


def test_two_boxes_conflict_though_the_last_one_is_right() -> None:
    for _, row in rows("two_boxes"):
        first, second = row["solution"].split("\n", 1)
        assert grade(second, row["answer"]).correct
        assert not grade(first, row["answer"]).correct
        assert last_boxed(first) is not None


def test_truncated_rows_never_reach_the_closing_brace() -> None:
    for item, row in rows("truncated"):
        assert item.solution.startswith(row["solution"])
        assert "}" not in row["solution"]


@pytest.mark.parametrize(
    ("kind", "word"), [("german", "Lösung"), ("french", "réponse"), ("chinese", "答案")]
)
def test_foreign_rows_are_right_but_in_another_language(kind: str, word: str) -> None:
    for item, row in rows(kind):
        assert grade(row["solution"], row["answer"]).correct
        assert word in row["solution"]
        assert all(step in row["solution"] for step in item.steps)


def test_broken_lines_are_no_json_and_hold_no_line_end() -> None:
    broken = lines("broken_line")
    for line in broken:
        assert "\n" not in line
        with pytest.raises(json.JSONDecodeError):
            json.loads(line)
    assert {line[0] for line in broken} == {"{", "["}


def test_nan_is_refused_by_strict_json() -> None:
    for line in lines("not_a_number"):
        with pytest.raises(ValueError, match="NaN"):
            json.loads(line, parse_constant=refuse)


def test_surrogates_cannot_be_encoded() -> None:
    for line in lines("lone_surrogate"):
        line.encode("utf-8")
        with pytest.raises(UnicodeEncodeError):
            json.loads(line)["solution"].encode("utf-8")


def test_unreadable_kinds_stay_below_the_limit_of_the_filter() -> None:
    assert sum(SHARES[kind][1] for kind in UNREADABLE) == pytest.approx(0.02)


def test_panel_problems_come_back_disguised_but_whole_or_nearly() -> None:
    copies = [json.loads(line) for line in panel_copies(SUMS)]
    texts = {item.question: normalise_problem(item.question) for item in SUMS}
    assert len(copies) > 2 * len(SUMS)
    for copy in copies:
        problem = normalise_problem(copy["problem"])
        assert copy["problem"] not in texts
        same_words = any(text in problem for text in texts.values())
        assert same_words or problem.endswith("calculator. what is the answer then")
        assert grade(copy["solution"], copy["answer"]).correct
