"""Whole rows, the best trace first, up to the budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.selection import Entry, Limits, choose, describe

LIMITS = Limits("shortest_correct", 1, 100, None, 0)


def entries(*rows: tuple[str, int]) -> list[Entry]:
    return [Entry(place, key, tokens, "s") for place, (key, tokens) in enumerate(rows)]


def test_policies() -> None:
    rows = entries(("a", 50), ("a", 20), ("b", 30), ("a", 20), ("b", 101))
    shortest = choose(rows, LIMITS)
    assert shortest.chosen == {1, 2}
    assert shortest.reasons == {0: "more-traces", 3: "more-traces", 4: "over-long"}
    assert choose(rows, Limits("first", 1, 100, None, 0)).chosen == {0, 2}
    assert choose(rows, Limits("shortest_correct", 2, 100, None, 0)).chosen == {1, 2, 3}
    assert choose(rows, Limits("all", 1, 100, None, 0)).chosen == {0, 1, 2, 3}


def test_an_overlong_trace_does_not_hide_a_shorter_one() -> None:
    rows = entries(("a", 500), ("a", 90))
    assert choose(rows, Limits("first", 1, 100, None, 0)).chosen == {1}


def test_the_budget_takes_every_problem_once_before_any_twice() -> None:
    rows = entries(*[("abcdefgh"[number % 8], 10) for number in range(24)])
    chosen = choose(rows, Limits("all", 1, 100, 80, 3)).chosen
    assert {rows[place].id for place in chosen} == set("abcdefgh")


def test_seeds_change_which_problems_enter_and_nothing_else_does() -> None:
    rows = entries(*[(f"p{number}", 10) for number in range(50)])
    picks = [choose(rows, Limits("first", 1, 100, 200, seed)) for seed in (0, 0, 1)]
    assert picks[0] == picks[1]
    assert picks[0].chosen != picks[2].chosen
    assert len(picks[2].chosen) == 20


def test_short_rows_do_not_slip_in_after_the_budget_is_full() -> None:
    rows = entries(*[(f"p{number}", 60 if number % 2 else 5) for number in range(40)])
    picks = [choose(rows, Limits("first", 1, 100, 300, seed)).chosen for seed in range(30)]
    long_rows = sum(rows[place].tokens == 60 for chosen in picks for place in chosen)
    short_rows = sum(rows[place].tokens == 5 for chosen in picks for place in chosen)
    assert abs(long_rows - short_rows) < 0.35 * short_rows


ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 120)), max_size=20)


@given(ROWS, st.integers(1, 3), st.none() | st.integers(1, 400), st.sampled_from(["first", "all"]))
def test_every_row_is_chosen_or_has_a_reason(
    rows: list[tuple[str, int]], most: int, budget: int | None, policy: str
) -> None:
    known = entries(*rows)
    limits = Limits("all" if policy == "all" else "first", most, 100, budget, 0)
    selection = choose(known, limits)
    assert selection.chosen.isdisjoint(selection.reasons)
    assert selection.chosen | selection.reasons.keys() == set(range(len(rows)))
    report = describe(known, selection, limits)
    assert report["read"] == report["kept"] + sum(report["dropped"].values())
    assert report["tokens"] <= (budget or report["tokens"])
    histogram = report["length_histogram"]
    assert sum(one["read"] for one in histogram) == report["read"]
    assert sum(one["kept"] for one in histogram) == report["kept"]
