"""Shares as whole numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.selection.quotas import largest_remainder, share_out


def test_known_splits() -> None:
    assert largest_remainder(10, [1, 1, 1]) == [4, 3, 3]
    assert largest_remainder(100, [47_000, 16_000, 15_900, 12_000, 6_000, 3_100]) == [
        *(47, 16, 16, 12, 6, 3)
    ]
    assert largest_remainder(5, [0.0, 0.0]) == [0, 0]
    assert largest_remainder(3, [0.1, 0.2]) == [1, 2]


def test_what_one_cannot_supply_the_others_do() -> None:
    assert share_out(100, [1, 1], [10, 500]) == [10, 90]
    assert share_out(100, [2, 1, 1], [10, 500, 500]) == [10, 45, 45]
    assert share_out(100, [1, 1], [10, 20]) == [10, 20]
    assert share_out(100, [1, 0], [10, 500]) == [10, 0]
    assert share_out(7, [], []) == []


PARTS = st.lists(st.tuples(st.floats(0, 9), st.integers(0, 50)), max_size=6)


@given(st.integers(0, 200), PARTS)
def test_sums_and_limits(total: int, parts: list[tuple[float, int]]) -> None:
    shares, supply = [one[0] for one in parts], [one[1] for one in parts]
    given_out = share_out(total, shares, supply)
    assert all(0 <= part <= most for part, most in zip(given_out, supply, strict=True))
    able = sum(most for share, most in parts if share > 0)
    assert sum(given_out) == min(total, able)


@given(st.integers(0, 200), st.lists(st.integers(0, 50), min_size=1, max_size=6))
def test_every_part_is_off_by_less_than_one(total: int, shares: list[int]) -> None:
    whole = sum(shares)
    for part, share in zip(largest_remainder(total, shares), shares, strict=True):
        assert abs(part - (total * share / whole if whole else 0)) < 1
