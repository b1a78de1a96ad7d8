"""Problems from files: panels, protected sets, what earlier runs held out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.artifacts import sha256_file
from pipeline.base.errors import UserError
from pipeline.base.records import Problem, write_rows
from pipeline.corpus.panels import earlier_problems, given_panel, read_questions, verified
from tests.support.settings import make_params

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


def entry(path: Path) -> dict[str, Any]:
    return {"path": str(path), "sha256": sha256_file(path)}


def test_a_panel_comes_from_its_file_or_from_the_data(tmp_path: Path) -> None:
    listed = entry(write(tmp_path / "p.jsonl", ROWS))
    found = given_panel(make_params(**{"data.panel": listed["path"]}), listed)
    assert found is not None
    assert [one.source for one in found.problems] == ["p.jsonl"]
    held_out = {"data.panel": "holdout", "holdout.problems": 5}
    assert given_panel(make_params(**held_out), None) is None
    with pytest.raises(UserError, match=r"holdout and holdout\.problems is 0"):
        given_panel(make_params(**held_out | {"holdout.problems": 0}), None)
    with pytest.raises(UserError, match=r"names no panel for data\.panel = p\.jsonl"):
        given_panel(make_params(**{"data.panel": "p.jsonl"}), None)


def test_earlier_hold_outs_come_in_any_schema_and_count_once(tmp_path: Path) -> None:
    ours = tmp_path / "panel.jsonl"
    write_rows(ours, [Problem("0" * 16, "What is 5 + 5?", "10", "s", "s:1")])
    files = [write(tmp_path / "a.jsonl", ROWS), ours, write(tmp_path / "b.jsonl", ROWS[1:2])]
    assert [one.problem for one in earlier_problems(map(entry, files))] == [
        *("What is 2 + 2?", "What is 3 + 3?", "What is 4 + 4?", "What is 5 + 5?")
    ]
    listed = entry(ours)
    ours.write_text("{}")
    with pytest.raises(UserError, match="changed since"):
        earlier_problems([listed])


def test_a_changed_or_missing_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", ROWS)
    listed = entry(path)
    assert verified(listed) == path
    path.write_text("{}")
    with pytest.raises(UserError, match="changed since"):
        verified(listed)
    path.unlink()
    with pytest.raises(UserError, match="not found"):
        verified(listed)
