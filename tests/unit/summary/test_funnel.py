"""The funnel: rows add up, and when they do not, the page says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.base.artifacts import read_json, write_json
from pipeline.summary.evidence import collect
from pipeline.summary.funnel import faults, funnel_section, passages, tokens_section
from tests.support.finished_run import write_finished_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_finished_run(tmp_path)
    return tmp_path


def change(path: Path, key: str, value: object) -> None:
    write_json(path, {**read_json(path), key: value})


def test_rows_in_are_rows_out_and_dropped_at_every_stage(run: Path) -> None:
    found = passages(collect(run))
    assert [(one.stage, one.rows_in, one.rows_out) for one in found] == [
        ("filter", 3000, 2400),
        ("decontaminate", 2400, 2350),
        ("select", 2350, 1712),
        ("tokenize", 1712, 1700),
    ]
    assert [one.unaccounted for one in found] == [0, 0, 0, 0]
    assert faults(found) == []


def test_rows_reserved_for_later_are_held_out_like_the_panel(run: Path) -> None:
    change(run / "work/filter/funnel.json", "held_out", 60)
    assert passages(collect(run))[0].unaccounted == 40
    change(run / "work/filter/funnel.json", "reserved", 40)
    assert (passages(collect(run))[0].held_out, faults(passages(collect(run)))) == (100, [])


def test_every_reason_is_listed_most_frequent_first(run: Path) -> None:
    lines = funnel_section(collect(run))
    rows = [line for line in lines if line.startswith("| filter | `")]
    assert rows == [
        "| filter | `wrong-answer` | 300 |",
        "| filter | `duplicate` | 150 |",
        "| filter | `not-english` | 50 |",
    ]
    assert "| tokenize | `too-long` | 12 |" in lines
    assert any("Every row is accounted for" in line for line in lines)


def test_rows_lost_inside_a_stage_are_said(run: Path) -> None:
    change(run / "work/select/report.json", "dropped", {"over-budget": 630})
    lines = funnel_section(collect(run))
    assert "**Does not add up:** select: +8 rows are unaccounted for." in lines
    assert not any("accounted for:" in line for line in lines)


def test_rows_lost_between_stages_are_said(run: Path) -> None:
    change(run / "work/decontaminate/report.json", "read", 2399)
    text = "\n".join(funnel_section(collect(run)))
    assert "filter kept 2,400 rows, decontaminate read 2,399." in text


def test_tokens_that_were_trained_are_told_from_those_that_were_read(run: Path) -> None:
    lines = tokens_section(collect(run))
    assert "| of these trained (reply and end token) | 91,000 (58.3 %) |" in lines
    assert "| packed sequences | 320 of 512 tokens |" in lines


def test_no_data_stage_no_figures(tmp_path: Path) -> None:
    nothing = collect(tmp_path, partial=True)
    assert "No data stage has run." in funnel_section(nothing)
    assert tokens_section(nothing) == []
