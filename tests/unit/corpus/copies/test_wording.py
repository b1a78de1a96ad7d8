"""What near copies share and what tells two problems apart."""

from __future__ import annotations

import pytest

from pipeline.corpus.copies.wording import are_near_copies, jaccard, read_wording, shingles

LONG = "A farmer has {n} cows and sells some of them to a friend who lives in the next village."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"Find \[\dfrac{1}{2} \cdot 3\] now please.", r"find $\frac{1}{2} \times 3$ now please"),
        ("She has 1,000 apples \u2212 3 pears.", "She has 1000 apples - 3 pears"),
        (r"$x \leq 3$ and $\left(x\right)$ holds", "x ≤ 3 and (x) holds"),
        ("The two-digit number is large", "The two digit number is large"),
    ],
)
def test_layout_changes_nothing(one: str, other: str) -> None:
    assert read_wording(one) == read_wording(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("8", "9"),
        ("1.5", "15"),
        ("three", "four"),
        ("x + 1", "x - 1"),
        ("8 / (4 / 2)", "8 / 4 / 2"),
        (r"\sin 3", r"\cos 3"),
        ("the largest", "the smallest"),
        ("the second", "the third"),
        ("$x$", "$y$"),
        ("PROOF", "TOOT"),
        ("5!", "5"),
    ],
)
def test_other_figures_make_another_problem(one: str, other: str) -> None:
    first, second = (LONG.format(n=said) for said in (one, other))
    assert not are_near_copies(first, second, 0.1)
    assert are_near_copies(first, first + " ", 1.0)


def test_a_name_or_a_synonym_makes_none() -> None:
    other = LONG.replace("farmer", "rancher")
    assert are_near_copies(LONG, other, 0.75)
    assert not are_near_copies(LONG, other, 0.95)


def test_similarity_is_shared_over_all() -> None:
    one, other = shingles("a b c d".split()), shingles("b c d e".split())
    assert jaccard(one, other) == pytest.approx(1 / 3)
    assert jaccard(shingles([]), shingles([])) == 1.0
    assert shingles(["a", "b"]) == {"a b"}
