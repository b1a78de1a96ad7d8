"""Panels from files and hold-outs by hash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.artifacts import sha256_file
from pipeline.base.errors import UserError
from pipeline.corpus.panels import choose_holdout, read_questions, verified

ROWS: list[Any] = [
    {"problem": "What is 2 + 2?", "answer": 4},
    {"question": "what is  2 + 2", "answer": "2+2\n#### 4"},
    {"problem": "What is 3 + 3?"},
    {"problem": "What is 4 + 4?", "answer": "\\frac{8"},
    [1],
]


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_panel_keeps_distinct_problems_with_a_readable_answer(tmp_path: Path) -> None:
    found = read_questions(write(tmp_path / "p.jsonl", ROWS), "p", need_gold=True)
    assert [(one.problem, one.gold, one.origin) for one in found.problems] == [
        ("What is 2 + 2?", "4", "p:1")
    ]
    assert found.summary() == {
        "read": 5,
        "kept": 1,
        "dropped": {"duplicate-problem": 1, "no-gold": 1, "not-object": 1, "unreadable-gold": 1},
    }


def test_a_protected_set_needs_no_answers(tmp_path: Path) -> None:
    found = read_questions(write(tmp_path / "p.jsonl", ROWS), "p", need_gold=False)
    assert len(found.problems) == 3


def test_a_file_without_problems_is_refused_with_its_first_fault(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none of 1 rows .*p:1: no-gold"):
        read_questions(write(tmp_path / "p.jsonl", ROWS[2:3]), "p", need_gold=True)
    with pytest.raises(UserError, match="the file is empty"):
        read_questions(write(tmp_path / "p.jsonl", []), "p", need_gold=False)


@given(st.sets(st.text(min_size=1, max_size=4), min_size=3), st.integers(0, 2), st.integers(0, 9))
def test_a_hold_out_depends_on_the_problems_alone(ids: set[str], count: int, seed: int) -> None:
    held = choose_holdout(ids, count, seed)
    assert len(held) == count
    assert held == choose_holdout(sorted(ids, reverse=True), count, seed)
    fewer = ids - {min(ids - held)}
    if len(fewer) > count:
        assert held == choose_holdout(fewer, count, seed)


def test_seeds_choose_differently_and_something_is_left_to_train() -> None:
    ids = [str(number) for number in range(100)]
    assert choose_holdout(ids, 10, 0) != choose_holdout(ids, 10, 1)
    with pytest.raises(UserError, match=r"filter\.holdout_problems is 100"):
        choose_holdout(ids, 100, 0)


def test_a_changed_or_missing_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", ROWS)
    entry = {"path": str(path), "sha256": sha256_file(path)}
    assert verified(entry) == path
    path.write_text("{}")
    with pytest.raises(UserError, match="changed since"):
        verified(entry)
    path.unlink()
    with pytest.raises(UserError, match="not found"):
        verified(entry)
