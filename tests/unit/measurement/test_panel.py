"""Which problems are asked, and how long it may take."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pipeline.base.budget import DEADLINE_VARIABLE, start_session
from pipeline.base.records import Problem
from pipeline.measurement.panel import choose_problems, summary_lines, time_share
from tests.support.settings import make_params

PROBLEMS = [Problem(f"{number:02d}", "q", "1", "panel", f"p:{number}") for number in range(30)]


def test_a_smaller_choice_is_part_of_a_larger_one() -> None:
    few, many = choose_problems(PROBLEMS, 5, seed=0), choose_problems(PROBLEMS, 12, seed=0)
    assert len(few) == 5
    assert {row.id for row in few} < {row.id for row in many}
    assert [row.id for row in many] == sorted(row.id for row in many)
    assert few != choose_problems(PROBLEMS, 5, seed=1)
    assert few != PROBLEMS[:5]


def test_choice_ignores_file_order_and_repeats() -> None:
    assert choose_problems(PROBLEMS[::-1] + PROBLEMS, 5, 0) == choose_problems(PROBLEMS, 5, 0)
    assert len(choose_problems(PROBLEMS, 99, 0)) == 30


@pytest.mark.parametrize(
    ("share", "reserve", "seconds"),
    [(0.5, 1.0, 900.0), (0.9, 45.0, 900.0), (0.0, 0.0, 0.0), (0.5, 90.0, 0.0)],
)
def test_time_share(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    share: float,
    reserve: float,
    seconds: float,
) -> None:
    monkeypatch.delenv(DEADLINE_VARIABLE, raising=False)
    params = make_params(
        **{
            "budget.hours": 1.0,
            "budget.evaluation_share": share,
            "budget.reserve_minutes": reserve,
        }
    )
    assert time_share(params, tmp_path)() == pytest.approx(seconds, abs=5)


def test_time_share_is_one_of_what_the_machine_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEADLINE_VARIABLE, str(time.time() + 3600))
    start_session(tmp_path, 10.0)
    params = make_params(**{"budget.hours": 10.0, "budget.evaluation_share": 0.25})
    assert time_share(params, tmp_path)() == pytest.approx(450, abs=5)


def test_summary_says_when_time_ended_it() -> None:
    scores = {
        "label": "adapter", "problems": 3, "requested_problems": 9, "pass_at_1": 0.5, "k": 2,
        "best_of_k": 0.6667, "pass_at_1_interval": [0.1, 0.9], "ended_by": "time",
    }  # fmt: skip
    (line,) = summary_lines(scores)
    assert "on 3 problems (9 were asked" in line


def test_every_variant_has_a_line_of_its_own() -> None:
    bare = {
        "problems": 9, "requested_problems": 9, "pass_at_1": 0.25, "k": 2, "best_of_k": 0.3,
        "pass_at_1_interval": [0.1, 0.5], "ended_by": "complete",
    }  # fmt: skip
    none = {"problems": 0, "requested_problems": 9}
    main = {**bare, "label": "base", "pass_at_1": 0.5, "variants": {"bare": bare, "late": none}}
    first, second, third = summary_lines(main)
    assert first.startswith("base: pass@1 0.500 [")
    assert second.startswith("base, prompt bare: pass@1 0.250 [")
    assert third == "base, prompt late: no problem of 9 was finished in time"
