"""Labels, solve rates and tiers in the spellings of public data sets."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from pipeline.corpus.rows.labels import is_rate, joined, label_of, labels_of, share_of, tier_of

SPELLINGS: list[tuple[Any, str | None]] = [
    (True, "correct"), ("correct", "correct"), ("True", "correct"), (1, "correct"),
    (1.0, "correct"), (" YES ", "correct"), (Decimal(1), "correct"),
    (False, "wrong"), ("wrong", "wrong"), ("Incorrect", "wrong"), (0, "wrong"), ("0.0", "wrong"),
    (None, "unverifiable"), ("unverifiable", "unverifiable"), ("Unknown", "unverifiable"),
    ("n/a", "unverifiable"), ("not verified", "unverifiable"),
    ("algebra", None), (3.5, None), (-1, None), (["x"], None), ({"a": 1}, None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "label"), SPELLINGS)
def test_spellings(value: Any, label: str | None) -> None:
    assert label_of(value) == label


def test_lists_are_parallel_to_the_replies() -> None:
    assert labels_of([True, "no", None], 3, strict=False) == ["correct", "wrong", "unverifiable"]
    assert labels_of("wrong", 2, strict=False) == ["wrong", "wrong"]
    assert labels_of([True], 2, strict=False) is None
    assert labels_of([True, 3.5], 2, strict=False) is None
    assert labels_of([True], 2, strict=True) == ["correct", "unverifiable"]
    assert labels_of([True, "odd", False], 2, strict=True) == ["correct", "unverifiable"]


def test_of_several_checkers_one_that_agrees_is_enough() -> None:
    found = joined(
        [["wrong", "wrong", "unverifiable"], ["correct", "unverifiable"] * 1 + ["unverifiable"]], 3
    )
    assert found == ["correct", "wrong", "unverifiable"]
    assert joined([], 2) == ["unlabelled", "unlabelled"]


@pytest.mark.parametrize(
    ("value", "share"),
    [
        (0.65, 0.65), (1, 1.0), (0, 0.0), (65, 0.65), ("65%", 0.65), ("1 %", 0.01),
        ("0.4", 0.4), ("3/8", 0.375), ([True, False, 1, 0.0], 0.5), (Decimal("0.5"), 0.5),
        (101, None), (-0.1, None), ("n/a", None), (math.nan, None), (math.inf, None),
        (True, None), ([], None), (["x", 1], None), ({"a": 1}, None), (10**400, None),
        ("9/8", None),
    ],
)  # fmt: skip
def test_rates_are_shares_or_per_cents(value: Any, share: float | None) -> None:
    assert share_of(value, "pass_rate") == share
    if share == 1:
        assert share_of(value, "solve_percent") == 0.01


def test_names_of_rates() -> None:
    for key in ("solve_rate", "pass_rate_72b_tir", "llama8b_solve_rate", "accuracy", "pass@1"):
        assert is_rate(key), key
    for key in ("difficulty", "level", "rate", "pass@8", "answer", "inaccuracy"):
        assert not is_rate(key), key


def test_tiers_at_their_edges() -> None:
    rates = (1.0, 0.65, 0.6499, 0.40, 0.3999, 0.0, None)
    assert [tier_of(rate) for rate in rates] == [
        *("easy", "easy", "medium", "medium", "hard", "hard", "unknown")
    ]
