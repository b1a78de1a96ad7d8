"""The rate follows the journal: no jump, zero at the end, the same after a resume."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.learning.schedule import (
    Replan,
    from_json,
    learning_rate,
    progress,
    rate_factor,
    replanned_total,
    stage_starts,
    to_json,
    total_steps,
)

RECIPE = {"peak": 1.0, "warmup": 0.1, "decay": "linear"}


@st.composite
def journals(draw: st.DrawFn) -> list[Replan]:
    """A plan and up to four re-plans, each made before the end that was planned."""
    journal = [Replan(0, draw(st.integers(5, 300)), "plan")]
    for _ in range(draw(st.integers(0, 4))):
        first = journal[-1].step + 1
        if first >= journal[-1].total:
            break
        step = draw(st.integers(first, journal[-1].total - 1))
        journal.append(Replan(step, step + draw(st.integers(1, 200)), "budget"))
    return journal


@given(journals())
def test_progress_is_monotonic_and_ends_at_one(journal: list[Replan]) -> None:
    values = [progress(step, journal) for step in range(total_steps(journal) + 1)]
    assert values[0] == 0.0
    assert values[-1] == pytest.approx(1.0)
    assert all(a < b for a, b in itertools.pairwise(values))


@given(journals())
def test_a_replan_does_not_move_the_rate_where_it_happens(journal: list[Replan]) -> None:
    for cut in range(1, len(journal)):
        step = journal[cut].step
        before = progress(step, journal[:cut])
        assert progress(step, journal[: cut + 1]) == pytest.approx(before)


@given(journals(), st.sampled_from(["linear", "cosine"]))
def test_the_last_update_is_as_small_as_the_end_of_the_decay(
    journal: list[Replan], decay: str
) -> None:
    last = total_steps(journal) - 1
    rate = learning_rate(last, journal, peak=1.0, warmup=0.0, decay=decay)  # type: ignore[arg-type]
    share_of_last_step = 1 - progress(last, journal)
    assert 0 < rate <= share_of_last_step


SHARES = st.lists(st.integers(1, 9).map(float), min_size=2, max_size=5)


@given(journals(), SHARES)
def test_a_stage_begins_at_the_first_step_that_reaches_its_share(
    journal: list[Replan], shares: list[float]
) -> None:
    starts, total = stage_starts(journal, shares), total_steps(journal)
    assert starts[0] == 0
    for number in range(1, len(shares)):
        reached = sum(shares[:number]) / sum(shares)
        start = starts[number]
        assert start == total or progress(start, journal) >= reached - 1e-8
        assert progress(start - 1, journal) < reached


@given(journals(), SHARES)
def test_a_replan_leaves_the_borders_behind_it_alone(
    journal: list[Replan], shares: list[float]
) -> None:
    for cut in range(1, len(journal)):
        step = journal[cut].step
        before = stage_starts(journal[:cut], shares)
        after = stage_starts(journal[: cut + 1], shares)
        for old, new in zip(before, after, strict=True):
            assert new == old if old <= step else new > step


def test_a_cut_shortens_the_stages_that_are_left_alike() -> None:
    plan = [Replan(0, 100, "plan")]
    assert stage_starts(plan, [2, 1, 1]) == [0, 50, 75]
    # A quarter of the run lies behind step 25; the other 75 steps are to be made in 15.
    assert stage_starts([*plan, Replan(25, 40, "budget")], [2, 1, 1]) == [0, 30, 35]
    # Behind step 60 lie 0.6, so the border at 0.75 comes after 15/40 of what is left.
    assert stage_starts([*plan, Replan(60, 76, "budget")], [2, 1, 1]) == [0, 50, 66]


def test_rates_before_a_replan_are_the_same_with_and_without_it() -> None:
    plan = [Replan(0, 100, "plan")]
    cut = [*plan, Replan(40, 60, "budget")]
    for step in range(40):
        assert learning_rate(step, plan, **RECIPE) == learning_rate(step, cut, **RECIPE)


def test_warmup_rises_to_the_peak_and_the_first_update_counts() -> None:
    plan = [Replan(0, 100, "plan")]
    rates = [learning_rate(step, plan, **RECIPE) for step in range(100)]
    assert rates[0] > 0
    assert rates[:10] == sorted(rates[:10])
    assert max(rates) == pytest.approx(1.0, abs=0.06)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_cosine_passes_half_the_peak_half_way() -> None:
    assert rate_factor(0.55, 0.1, "cosine") == pytest.approx(0.5)
    assert rate_factor(0.1, 0.1, "cosine") == pytest.approx(1.0)
    assert math.isclose(rate_factor(1.0, 0.1, "cosine"), 0.0, abs_tol=1e-12)


def test_journal_survives_json_and_an_empty_one_is_refused() -> None:
    journal = [Replan(0, 9, "plan"), Replan(4, 6, "budget")]
    assert from_json(to_json(journal)) == journal
    with pytest.raises(UserError, match="empty"):
        total_steps([])


def test_a_slow_machine_gets_fewer_steps_that_fit_the_time() -> None:
    total = replanned_total(
        step=10, total=100, seconds_a_step=2.0, seconds_left=60.0, most_steps=100
    )
    assert 10 < total < 100
    assert (total - 10) * 2.0 <= 60.0


def test_a_plan_that_fits_stays_and_fixed_steps_never_grow() -> None:
    same = replanned_total(step=3, total=50, seconds_a_step=1.0, seconds_left=900.0, most_steps=50)
    assert same == 50


def test_time_left_over_is_used_when_the_recipe_allows_more() -> None:
    more = replanned_total(
        step=10, total=100, seconds_a_step=1.0, seconds_left=1000.0, most_steps=400
    )
    assert more == 400


def test_no_time_at_all_still_makes_one_step() -> None:
    assert (
        replanned_total(step=7, total=9, seconds_a_step=5.0, seconds_left=-3.0, most_steps=9) == 8
    )
