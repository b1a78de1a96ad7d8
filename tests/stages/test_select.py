"""Stage select on twenty rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import select
from pipeline.base.artifacts import read_json, write_json
from pipeline.base.errors import UserError
from pipeline.base.records import Trace, read_rows, write_rows
from tests.support.settings import make_params
from tests.support.traces import make_trace

KEPT = Path("work/decontaminate/kept.jsonl")
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
    write_rows(KEPT, (trace(number) for number in range(20)))
    files = [{"source": 0, "path": "in/t0.jsonl"}, {"source": 1, "path": "in/t1.jsonl"}]
    write_json(Path("work/prepare/data.json"), {"sources": files})
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
    assert [(one["source"], one["kept"], one["dropped"]) for one in report["sources"]] == [
        ("t0.jsonl", 0, {"more-traces": 10}),
        ("t1.jsonl", 10, {}),
    ]


def test_chosen_lines_are_copied_byte_by_byte() -> None:
    select.main(make_params())
    assert (OUT / "traces.jsonl").read_bytes() == b"".join(KEPT.read_bytes().splitlines(True)[10:])


def test_near_copies_are_one_problem() -> None:
    rows = [replace(trace(number), group="0" * 16) for number in range(20)]
    write_rows(KEPT, rows)
    select.main(make_params(**{"select.max_traces_per_problem": 2}))
    assert [row.origin for row in chosen()] == ["t:10", "t:11"]


def test_every_key_of_the_section_reaches_the_choice() -> None:
    rows = [
        replace(trace(n), tier=("easy", "hard")[n % 2], solve_rate=n / 20, weight=1.0 + n // 10)
        for n in range(20)
    ]
    write_rows(KEPT, rows)
    plan(400)
    settings = {
        "select.policy": "diverse",
        "select.max_traces_per_problem": 2,
        "select.max_tokens": 58,
        "select.solve_rate": [0.1, 0.85],
        "select.tier_shares": {"easy": 3.0, "hard": 1.0},
        "evaluation.max_new_tokens": 55,
    }
    select.main(make_params(**settings))
    report = read_json(OUT / "report.json")
    assert {"over-tier", "over-source"} <= report["dropped"].keys()
    assert (report["dropped"]["over-cap"], report["dropped"]["outside-solve-rate"]) == (1, 4)
    by_tier = {one["tier"]: (one["tokens"], one["wanted"]) for one in report["tiers"]}
    assert all(abs(tokens - wanted) < 58 for tokens, wanted in by_tier.values())
    assert [one["weight"] for one in report["weights"]] == [1.0, 2.0]
    assert report["kept_beyond_answer_limit"] == sum(row.tokens > 55 for row in chosen()) > 0


def test_the_plans_budget_holds_and_a_given_one_wins() -> None:
    plan(200)
    select.main(make_params(**{"select.seed": 1}))
    other = chosen()
    select.main(make_params())
    assert chosen() != other
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
