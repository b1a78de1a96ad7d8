"""Ratios by their definition; runs and content as a person would count them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.overlap.similarity import (
    Alphabet,
    Least,
    Scores,
    compare,
    content_of,
    longest_run,
    ratio,
    shape_of,
)
from pipeline.corpus.overlap.tokens import tokens_of

NO_LIMIT = Least(0, 0.0, 0.0, 0.0)


def scores(protected: str, training: str, least: Least = NO_LIMIT) -> Scores | None:
    alphabet = Alphabet()
    mine = shape_of(tokens_of(protected), alphabet, learn=True)
    return compare(mine, shape_of(tokens_of(training), alphabet), least)


def plain_lcs(one: str, other: str) -> int:
    row = [0] * (len(other) + 1)
    for left in one:
        before = row[:]
        for place, right in enumerate(other, start=1):
            row[place] = (
                before[place - 1] + 1 if left == right else max(row[place - 1], before[place])
            )
    return row[-1]


def plain_run(one: str, other: str) -> int:
    return max(
        (
            stop - start
            for start in range(len(one))
            for stop in range(start, len(one) + 1)
            if one[start:stop] in other
        ),
        default=0,
    )


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_ratio_and_run_by_definition(one: str, other: str) -> None:
    size = len(one) + len(other)
    assert ratio(one, other) == (2 * plain_lcs(one, other) / size if size else 0)
    start, length = longest_run(one, other)
    assert length == plain_run(one, other)
    assert one[start : start + length] in other


def test_scores_of_an_edit() -> None:
    found = scores(
        "Tom has 4 apples and x pears, 1 rotten", "Tom has 5 apples and y pears, 1 rotten"
    )
    assert found is not None
    assert found.lcs == pytest.approx(7 / 9)
    assert (found.masked, found.structure, found.held) == (1, 1, 1)
    assert (found.run, found.run_share, found.run_content) == (3, 3 / 9, 2)
    assert (found.wording, found.content, found.content_share) == (6, 3, 1)
    assert (found.numbers, found.has_numbers, found.same_numbers) == (0.5, True, False)


def test_words_of_the_training_problem_alone_never_match() -> None:
    found = scores("apples pears", "plums cherries")
    assert found is not None
    assert (found.lcs, found.masked, found.run) == (0, 0, 0)
    assert found.numbers == 1


def test_a_pair_below_every_limit_is_not_scored() -> None:
    least = Least(13, 0.6, 0.6, 0.58)
    assert scores("apples pears 3", "plums pears 4 cherries and much more", least) is None
    assert scores("apples pears 3", "apples pears 4", least) is not None


def test_content_is_what_a_problem_is_about() -> None:
    words = tokens_of("Find the value of \\frac{3}{x} marbles in triangle ABC if 2007 is odd")
    assert content_of(words) == {"marbles"}


def test_more_tokens_than_lie_below_the_surrogates() -> None:
    alphabet = Alphabet()
    alphabet.learn([f"w{number}" for number in range(60_000)])
    text = "".join(kind[0] for kind in alphabet.spell([f"w{n}" for n in range(60_000)]))
    assert len(set(text)) == 60_000
    text.encode("utf-8")
