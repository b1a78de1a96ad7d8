"""Stage select on twenty rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import select
from pipeline.base.artifacts import read_json, write_json
from pipeline.base.errors import UserError
from pipeline.base.records import Trace, read_rows, write_rows
from tests.support.settings import make_params
from tests.support.traces import make_trace

OUT = Path("work/select")


def trace(number: int) -> Trace:
    """Ten problems, two traces each; the second is ten tokens shorter."""
    problem = f"Problem {number % 10}?"
    tokens = 50 + number % 10 - 10 * (number // 10)
    where = f"t{number // 10}.jsonl"
    return make_trace(problem, "1", source=where, origin=f"t:{number}", tokens=tokens)


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(Path("work/decontaminate/kept.jsonl"), (trace(number) for number in range(20)))
    plan(None)


def plan(budget: int | None, sequence: int = 100) -> None:
    value = {"sequence_tokens": sequence, "token_budget": budget}
    write_json(Path("work/plan/corpus.json"), value)


def chosen() -> list[Trace]:
    return list(read_rows(Trace, OUT / "traces.jsonl"))


def test_the_shorter_trace_of_every_problem_in_the_order_of_the_data() -> None:
    select.main(make_params())
    assert [row.origin for row in chosen()] == [f"t:{number}" for number in range(10, 20)]
    report = read_json(OUT / "report.json")
    assert (report["read"], report["kept"], report["problems"]) == (20, 10, 10)
    assert report["dropped"] == {"more-traces": 10}
    assert report["tokens"] == sum(row.tokens for row in chosen())
    assert report["sources"] == [
        {"source": "t0.jsonl", "read": 10, "kept": 0, "tokens": 0},
        {"source": "t1.jsonl", "read": 10, "kept": 10, "tokens": report["tokens"]},
    ]


def test_the_plans_budget_holds_and_a_given_one_wins() -> None:
    plan(200)
    select.main(make_params())
    assert 150 < sum(row.tokens for row in chosen()) <= 200
    select.main(make_params(**{"select.token_budget": 100}))
    assert 50 < sum(row.tokens for row in chosen()) <= 100
    assert read_json(OUT / "report.json")["token_budget"] == 100


def test_long_rows_are_dropped_whole_and_counted() -> None:
    plan(None, sequence=45)
    select.main(make_params())
    assert max(row.tokens for row in chosen()) == 45
    assert read_json(OUT / "report.json")["dropped"] == {"over-long": 14}


@pytest.mark.parametrize(
    ("sequence", "budget", "remedy"), [(10, None, "plan.sequence_tokens"), (100, 5, "token_budget")]
)
def test_nothing_left_names_the_setting(sequence: int, budget: int | None, remedy: str) -> None:
    plan(budget, sequence)
    with pytest.raises(UserError, match=remedy):
        select.main(make_params())
