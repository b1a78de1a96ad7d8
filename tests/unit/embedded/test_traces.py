"""The mixture: reproducible, counted, and apart from its panel."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.grading import grade
from pipeline.base.records import normalise_problem
from pipeline.embedded.dirt import SHARES
from pipeline.embedded.sums import QUESTIONS, Sum
from pipeline.embedded.traces import PANEL_PROBLEMS, Material, ensure_material, generate, unlike

ROWS = 800


@pytest.fixture(scope="module")
def material() -> Material:
    return generate(ROWS, seed=4)


def readable(lines: list[str]) -> list[dict[str, Any]]:
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def test_counts_say_what_was_made(material: Material) -> None:
    counts = material.counts
    assert len(material.traces) == sum(counts.values()) == ROWS
    assert counts.keys() == {*SHARES, "panel_copy", "duplicate", "clean"}
    assert counts["wrong_answer"] == 24
    assert 0.15 * ROWS < ROWS - counts["clean"] < 0.25 * ROWS
    assert min(counts.values()) > 0


def test_counts_agree_with_the_lines(material: Material) -> None:
    counts, rows = material.counts, readable(material.traces)
    problems = Counter(normalise_problem(row["problem"]) for row in rows)
    assert ROWS - len(rows) == counts["broken_line"]
    assert sum(row["answer"] != row["answer"] for row in rows) == counts["not_a_number"]
    assert sum(times - 1 for times in problems.values()) == counts["duplicate"]
    assert ROWS - len(set(material.traces)) == counts["duplicate"]
    reasons = Counter(
        grade(row["solution"], row["answer"]).reason
        for row in rows
        if row["answer"] == row["answer"]
    )
    assert reasons["mismatch"] == counts["wrong_answer"]
    unboxed = reasons["no-box"] + reasons["unclosed-box"] + reasons["truncated"]
    assert unboxed == counts["no_box"] + counts["truncated"]


def test_the_same_seed_gives_the_same_lines_and_another_seed_other_ones(material: Material) -> None:
    assert generate(ROWS, seed=4) == material
    other = generate(ROWS, seed=5)
    assert other.traces != material.traces
    assert other.panel == material.panel


def test_the_panel_asks_distinct_problems_of_the_same_kind(material: Material) -> None:
    rows = readable(material.panel)
    assert len({row["problem"] for row in rows}) == PANEL_PROBLEMS == len(material.panel)
    assert all(row.keys() == {"problem", "answer"} for row in rows)
    forms = {re.sub(r"\d+( [+-] \d+)+", "{}", row["problem"]) for row in rows}
    assert forms == set(QUESTIONS)


def test_only_the_planned_copies_hold_a_panel_problem(material: Material) -> None:
    panel = {normalise_problem(row["problem"]) for row in readable(material.panel)}
    touched = [
        row
        for row in readable(material.traces)
        if any(text in normalise_problem(row["problem"]) for text in panel)
        or "answer then" in row["problem"]
    ]
    assert len(touched) == material.counts["panel_copy"]


def test_a_problem_that_contains_a_panel_problem_is_left_out() -> None:
    panel = [Sum("3 + 4", 7, "What is 3 + 4?")]
    fresh = [
        Sum("3 + 4 - 5", 2, "What is 3 + 4 - 5?"),
        Sum("3 - 4", -1, "What is 3 - 4?"),
        Sum("3 + 4", 7, "Calculate 3 + 4."),
        Sum("13 + 4", 17, "What is 13 + 4?"),
        Sum("3 - 4", -1, "Calculate 3 - 4."),
    ]
    assert list(unlike(iter(fresh), panel)) == fresh[3:]


def test_few_rows_lose_the_rare_kinds_and_stay_readable() -> None:
    small = generate(50, seed=0)
    assert len(small.traces) == 50
    unreadable = sum(small.counts[k] for k in ("broken_line", "not_a_number", "lone_surrogate"))
    assert unreadable <= 0.05 * 50


def test_more_rows_than_panel_disguises_still_add_up() -> None:
    large = generate(9000, seed=0)
    assert len(large.traces) == 9000 == sum(large.counts.values())
    assert large.counts["panel_copy"] < 270


def test_files_are_written_once_and_mended_when_damaged(tmp_path: Path) -> None:
    traces, panel = tmp_path / "data" / "traces.jsonl", tmp_path / "data" / "panel.jsonl"
    ensure_material(60, 0, traces, panel)
    text, inode = traces.read_text(encoding="utf-8"), traces.stat().st_ino
    assert text.splitlines() == generate(60, 0).traces
    ensure_material(60, 0, traces, panel)
    assert traces.stat().st_ino == inode
    traces.write_text(text[:-20], encoding="utf-8")
    panel.unlink()
    ensure_material(60, 0, traces, panel)
    assert traces.read_text(encoding="utf-8") == text
    assert panel.read_text(encoding="utf-8").splitlines() == generate(60, 0).panel
