"""Whole rows, the best trace first, up to the budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.corpus.selection.choice import REASONS, Limits, choose
from pipeline.corpus.selection.entries import Entries
from tests.support.entries import make_entries

A, B = 11, 22


def limits(policy: str = "shortest_correct", most: int = 1, **given_: Any) -> Limits:
    defaults: dict[str, Any] = {"sequence_tokens": 100, "token_budget": None, "seed": 0}
    return Limits(policy, most, **(defaults | given_))  # type: ignore[arg-type]


def chosen(entries: Entries, given_: Limits) -> list[int]:
    return np.flatnonzero(choose(entries, given_) == 0).tolist()


def reasons(entries: Entries, given_: Limits) -> list[str]:
    return [REASONS[one] for one in choose(entries, given_)]


def many(count: int, tokens: Sequence[int] = (10,), **given_: Any) -> Entries:
    return make_entries([(n, tokens[n % len(tokens)]) for n in range(count)], **given_)


def test_policies() -> None:
    rows = make_entries([(A, 50), (A, 20), (B, 30), (A, 20), (B, 101)])
    assert reasons(rows, limits()) == [
        *("more-traces", "chosen", "chosen", "more-traces", "over-long")
    ]
    assert chosen(rows, limits("first")) == [0, 2]
    assert chosen(rows, limits(most=2)) == [1, 2, 3]
    assert chosen(rows, limits("all")) == [0, 1, 2, 3]
    assert chosen(rows, limits("diverse")) == [1, 2]


def test_a_row_that_may_not_enter_hides_no_other_of_its_problem() -> None:
    rows = make_entries([(A, 500), (A, 90), (A, 60)], rates=[None, None, 0.95])
    assert reasons(rows, limits("first")) == ["over-long", "chosen", "more-traces"]
    assert reasons(rows, limits("first", max_tokens=80)) == ["over-long", "over-cap", "chosen"]
    assert reasons(rows, limits(solve_rate=(0.1, 0.9))) == [
        *("over-long", "chosen", "outside-solve-rate")
    ]


def test_the_band_takes_its_ends_and_unknown_rates() -> None:
    rows = many(6, rates=[0.1, 0.0999, 0.9, 0.9001, None, 0.7])
    assert chosen(rows, limits(solve_rate=(0.1, 0.9))) == [0, 2, 4, 5]
    assert chosen(rows, limits(solve_rate=(0.7, 0.7))) == [4, 5]


def test_a_row_as_long_as_a_limit_may_enter() -> None:
    rows = make_entries([(A, 100), (B, 101)])
    assert chosen(rows, limits(sequence_tokens=101, max_tokens=100)) == [0]
    assert chosen(rows, limits(sequence_tokens=100)) == [0]
    assert chosen(rows, limits(sequence_tokens=101, token_budget=201)) == [0, 1]


def test_the_policy_diverse_spreads_over_topics() -> None:
    topics = [0] * 60 + [9] * 6
    picked = chosen(many(66, topics=topics), limits("diverse", token_budget=100))
    assert [topics[place] for place in picked].count(9) == 5


def test_the_budget_takes_every_problem_once_before_any_twice() -> None:
    rows = make_entries([(number % 8, 10) for number in range(24)])
    for policy in ("all", "diverse"):
        picked = chosen(rows, limits(policy, 3, token_budget=80))
        assert {int(rows.group[place]) for place in picked} == set(range(8))


def test_seeds_change_which_problems_enter_and_nothing_else_does() -> None:
    for policy in ("first", "diverse"):
        picks = [
            chosen(many(50), limits(policy, token_budget=200, seed=seed)) for seed in (0, 0, 1)
        ]
        assert picks[0] == picks[1] != picks[2]
        assert len(picks[2]) == 20


def test_new_problems_only_push_others_out() -> None:
    before = set(chosen(many(50), limits("first", token_budget=200)))
    after = set(chosen(many(80), limits("first", token_budget=200)))
    assert {place for place in after if place < 50} < before


def test_short_rows_do_not_slip_in_after_the_budget_is_full() -> None:
    rows = many(40, (5, 60))
    picks = [chosen(rows, limits("first", token_budget=300, seed=seed)) for seed in range(30)]
    long_rows = sum(rows.tokens[place] == 60 for picked in picks for place in picked)
    short_rows = sum(rows.tokens[place] == 5 for picked in picks for place in picked)
    assert abs(long_rows - short_rows) < 0.35 * short_rows


def test_a_tier_without_a_share_is_left_out_whatever_the_budget() -> None:
    rows = many(4, tiers=["easy", "hard", "unknown", "hard"])
    for shares in ({"hard": 1.0}, {"hard": 2.0, "easy": 0.0}):
        assert reasons(rows, limits(tier_shares=shares)) == [
            *("over-tier", "chosen", "over-tier", "chosen")
        ]


def test_a_lost_row_says_to_what() -> None:
    tiers = ["easy", "hard"] * 30
    found = reasons(
        many(60, tiers=tiers), limits(token_budget=300, tier_shares={"easy": 9, "hard": 1})
    )
    assert found[::2].count("chosen") == 27
    assert found[1::2].count("chosen") == 3
    assert "over-tier" not in found[::2]
    assert found[1::2].count("over-tier") >= 5
    sources = [0, 1] * 30
    found = reasons(many(60, sources=sources, weights={0: 9, 1: 1}), limits(token_budget=300))
    assert found[1::2].count("chosen") == 3
    assert found[1::2].count("over-source") >= 5
    assert "over-tier" not in found


ROW = st.tuples(
    st.integers(0, 5), st.integers(1, 120), st.integers(0, 2), st.sampled_from([0.0, 0.5, None])
)
POLICY = st.sampled_from(["shortest_correct", "first", "all", "diverse"])
SHARES = st.sampled_from([None, {"easy": 1.0, "hard": 3.0}, {"unknown": 1.0}])


@given(
    st.lists(ROW, max_size=25), POLICY, st.integers(1, 3), st.none() | st.integers(1, 400),
    SHARES, st.sampled_from([None, (0.1, 0.9)]), st.booleans(),
)  # fmt: skip
def test_no_limit_is_ever_broken(
    rows: list[tuple[int, int, int, float | None]], policy: str, most: int, budget: int | None,
    shares: dict[str, float] | None, band: tuple[float, float] | None, weighted: bool,
) -> None:  # fmt: skip
    entries = make_entries(
        [row[:2] for row in rows],
        tiers=[("easy", "hard", "unknown")[row[2]] for row in rows],
        sources=[row[0] % 3 for row in rows],
        rates=[row[3] for row in rows],
        topics=[row[0] % 4 for row in rows],
        weights={0: 1.0, 1: 2.0, 2: 5.0} if weighted else None,
    )
    asked = limits(
        policy, most, token_budget=budget, tier_shares=shares, solve_rate=band, max_tokens=90
    )
    picked = chosen(entries, asked)
    used = sum(rows[place][1] for place in picked)
    assert budget is None or used <= budget
    assert all(rows[place][1] <= 90 for place in picked)
    assert policy == "all" or all(
        sum(rows[place][0] == group for place in picked) <= most for group in range(6)
    )
    assert band is None or all(rows[place][3] != 0.0 for place in picked)
    named = reasons(entries, asked)
    if budget is None:
        assert not {"over-budget", "over-source"} & set(named)
    elif "over-budget" in named and not shares and not weighted:
        waiting = [row[1] for row, why in zip(rows, named, strict=True) if why == "over-budget"]
        assert used + max(waiting) > budget


def test_contradictory_limits_are_refused() -> None:
    for band in ((0.9, 0.1), (-0.1, 0.5), (0.2, 1.5)):
        with pytest.raises(UserError, match=r"select\.solve_rate is \["):
            limits(solve_rate=band)
    for shares in ({"hard": 0.0}, {}, {"hard": -1.0, "easy": 2.0}):
        with pytest.raises(UserError, match=r"select\.tier_shares is \{"):
            limits(tier_shares=shares)
