"""No problem and no near copy on two sides; nothing moves but at the edge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.corpus.copies.holdout import (
    EARLIER,
    PANEL,
    RESERVE,
    TRAIN,
    Holdout,
    HoldoutRows,
    choose_holdout,
)

Row = tuple[int, int, int, bool, bool, bool]
"""Problem, group, source, stated, sound, earlier."""


def rows_of(rows: list[Row]) -> HoldoutRows:
    columns = list(zip(*rows, strict=True)) or [()] * 6
    kinds = (np.uint64, np.uint64, np.int32, np.bool_, np.bool_, np.bool_)
    return HoldoutRows(*(np.asarray(one, kind) for one, kind in zip(columns, kinds)))  # type: ignore[arg-type]


def row(problem: int, source: int = 0, stated: bool = True, sound: bool = True) -> Row:
    return (problem, problem, source, stated, sound, False)


def fates(found: Holdout) -> dict[int, int]:
    return dict(zip(found.groups.tolist(), found.fates.tolist(), strict=True))


@st.composite
def corpora(draw: st.DrawFn) -> list[Row]:
    """Rows of up to 40 problems, of which one to three neighbours are near copies."""
    count, together = draw(st.integers(4, 40)), draw(st.integers(1, 3))
    facts = st.tuples(st.integers(0, 2), st.booleans(), st.booleans())
    made: list[Row] = []
    for _ in range(draw(st.integers(count, 2 * count))):
        problem = draw(st.integers(0, count - 1))
        earlier = draw(st.integers(0, 9)) == 0
        made.append((problem, problem // together * together, *draw(facts), earlier))
    return made


def attempt(rows: list[Row], problems: int, share: float, seed: int = 0) -> Holdout | None:
    try:
        return choose_holdout(rows_of(rows), problems, share, seed)
    except UserError:
        return None


@given(corpora(), st.integers(0, 6), st.sampled_from([0.0, 0.2, 0.5]), st.integers(0, 3))
def test_one_group_one_side(rows: list[Row], problems: int, share: float, seed: int) -> None:
    found = attempt(rows, problems, share, seed)
    if found is None:
        return
    side = found.fate_of(rows_of(rows).group)
    sides: dict[int, set[int]] = {}
    for one, fate in zip(rows, side.tolist(), strict=True):
        sides.setdefault(one[1], set()).add(fate)
        sides.setdefault(-1 - one[0], set()).add(fate)
    assert all(len(one) == 1 for one in sides.values())
    for one, fate in zip(rows, side.tolist(), strict=True):
        assert not one[5] or fate == EARLIER
    sound = {one[1] for one in rows if one[4] and not one[5]}
    stated = {one[1] for one in rows if one[3] and one[4] and not one[5]}
    by_fate = {fate: {g for g, f in fates(found).items() if f == fate} for fate in range(4)}
    assert by_fate[RESERVE] <= stated
    assert by_fate[PANEL] <= sound
    assert not sound - by_fate[EARLIER] or len(by_fate[PANEL]) == problems
    if by_fate[PANEL] - stated:  # the others only once all stated ones are taken
        assert not (stated & by_fate[TRAIN])
    asked = set(found.problems(PANEL).tolist())
    assert len(asked) == len(by_fate[PANEL])
    assert asked <= {one[0] for one in rows if one[4]}


@given(corpora(), st.randoms(use_true_random=False))
def test_order_does_not_matter(rows: list[Row], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = attempt(rows, 3, 0.2), attempt(shuffled, 3, 0.2)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert fates(one) == fates(other)
        assert one.asked.tolist() == other.asked.tolist()


@given(corpora(), st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=9))
def test_new_rows_move_others_only_at_the_edge(
    rows: list[Row], more: list[tuple[int, bool]]
) -> None:
    new = [row(1000 + place, *facts) for place, facts in enumerate(more)]
    before, after = attempt(rows, 3, 0.2), attempt(rows + new, 3, 0.2)
    if before is None or after is None:
        return
    old, later = fates(before), fates(after)
    for group, fate in old.items():
        assert (fate in (RESERVE, EARLIER)) == (later[group] in (RESERVE, EARLIER))
    came_in = {group for group in old if later[group] == PANEL != old[group]}
    went_out = {group for group in old if old[group] == PANEL != later[group]}
    assert len(went_out) <= len(new)
    assert len(came_in) <= len(went_out)


def test_new_rows_of_one_source_only_push_out_at_its_edge() -> None:
    old = [row(number) for number in range(100)]
    before = choose_holdout(rows_of(old), 10, 0.0, 0)
    after = choose_holdout(rows_of(old + [row(500 + n) for n in range(100)]), 10, 0.0, 0)
    kept = set(after.problems(PANEL).tolist()) & set(range(100))
    assert kept < set(before.problems(PANEL).tolist())
    assert 2 <= len(kept) <= 8


def test_sources_give_in_proportion_and_stated_answers_first() -> None:
    rows = [row(number, source=0) for number in range(60)]
    rows += [row(100 + number, source=1) for number in range(30)]
    rows += [row(200 + number, source=2, stated=False) for number in range(500)]
    chosen = choose_holdout(rows_of(rows), 9, 0.0, 0).problems(PANEL)
    assert [int(((chosen // 100) == one).sum()) for one in range(3)] == [6, 3, 0]
    chosen = choose_holdout(rows_of(rows), 100, 0.0, 0).problems(PANEL)
    assert int((chosen < 200).sum()) == 90


def test_seeds_take_other_problems() -> None:
    rows = rows_of([row(number) for number in range(100)])
    panels = [choose_holdout(rows, 10, 0.0, seed).problems(PANEL).tolist() for seed in (0, 0, 1)]
    assert panels[0] == panels[1] != panels[2]


def test_the_reserve_is_its_share_of_every_source_and_needs_a_stated_answer() -> None:
    rows = [row(number, source=number % 2) for number in range(4000)]
    rows += [row(5000 + number, stated=False) for number in range(1000)]
    found = choose_holdout(rows_of(rows), 50, 0.1, 0)
    reserve = found.problems(RESERVE)
    assert found.counts() == {
        "train": 5000 - 50 - len(reserve), "panel": 50, "reserve": len(reserve), "earlier": 0,
    }  # fmt: skip
    for source in range(2):
        assert 160 < int((reserve % 2 == source).sum()) < 240
    assert int(reserve.max()) < 4000
    other = choose_holdout(rows_of(rows), 50, 0.1, 1).problems(RESERVE)
    assert len(np.intersect1d(reserve, other)) < 0.3 * len(reserve)


def test_a_near_copy_of_an_earlier_problem_is_neither_trained_nor_chosen() -> None:
    rows = [row(number) for number in range(50)]
    rows += [(60, 7, 0, True, True, False), (70, 8, -1, False, False, True)]
    rows[8] = (8, 8, 0, True, True, False)
    for seed in range(20):
        found = choose_holdout(rows_of(rows), 10, 0.3, seed)
        assert fates(found)[8] == EARLIER
        assert fates(found)[7] in (TRAIN, PANEL, RESERVE)
        assert 8 not in found.problems(PANEL)


def test_the_problem_that_stands_for_a_group_is_one_with_an_answer() -> None:
    rows: list[Row] = [(1, 1, 0, False, True, False), (2, 1, 0, True, True, False)]
    rows += [(3, 1, 0, True, False, False), row(9, stated=False)]
    for seed in range(5):
        assert choose_holdout(rows_of(rows), 1, 0.0, seed).problems(PANEL).tolist() == [2]


def test_something_is_left_to_train() -> None:
    rows = rows_of([row(number) for number in range(10)])
    with pytest.raises(UserError, match=r"holdout\.problems is 10, the data have 10 usable"):
        choose_holdout(rows, 10, 0.0, 0)
    with pytest.raises(UserError, match=r"holdout\.reinforcement_share is 0\.999999"):
        choose_holdout(rows, 0, 0.9999999, 0)
    assert choose_holdout(rows_of([]), 5, 0.5, 0).counts()["train"] == 0


def test_a_problem_in_two_groups_is_a_bug_of_the_caller() -> None:
    with pytest.raises(ValueError, match="two groups"):
        choose_holdout(
            rows_of([(1, 1, 0, True, True, False), (1, 2, 0, True, True, False)]), 0, 0, 0
        )
