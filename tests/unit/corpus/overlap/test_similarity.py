"""Ratios by their definition; runs and content as a person would count them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.overlap.shared_runs import longest_run, shares_run
from pipeline.corpus.overlap.similarity import (
    Alphabet,
    Least,
    Scores,
    compare,
    content_of,
    ratio,
    shape_of,
    with_run,
)
from pipeline.corpus.overlap.tokens import tokens_of

NO_LIMIT = Least(1, 1, 0.0, 0.0, 0.0)


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


@given(st.text("ab", max_size=14), st.text("ab", max_size=14), st.integers(1, 9))
def test_sharing_a_run_by_definition(one: str, other: str, size: int) -> None:
    assert shares_run(one, other, size) == (plain_run(one, other) >= size)


@pytest.mark.parametrize("size", range(1, 10))
def test_a_shared_run_is_seen_wherever_it_stands(size: int) -> None:
    run = "abcdefghi"[:size]
    for before in range(12):
        one, other = f"{'x' * before}{run}{'x' * 3}", f"yy{run}y"
        assert shares_run(one, other, size)
        assert shares_run(other, one, size)
        assert not shares_run(one, other, size + 1)


@given(st.lists(st.sampled_from("abcdefgh"), max_size=40), st.data())
def test_the_first_longest_run_is_found(words: list[str], data: st.DataObject) -> None:
    one, other = "".join(words), data.draw(st.text("abcdefgh", max_size=40))
    start, length = longest_run(one, other)
    assert length == plain_run(one, other)
    assert not any(one[left : left + length] in other for left in range(start))


def test_a_run_too_short_for_every_rule_is_left_out_and_can_be_added() -> None:
    texts = "red ships sail to 3 ports", "red ships sail to 4 ports"
    alphabet = Alphabet()
    mine = shape_of(tokens_of(texts[0]), alphabet, learn=True)
    theirs = shape_of(tokens_of(texts[1]), alphabet)
    found = compare(mine, theirs, Least(13, 8, 0.6, 0.6, 0.58))
    assert found is not None
    assert (found.run, found.run_share, found.run_content) == (0, 0, 0)
    full = with_run(found, mine, theirs)
    assert (full.run, full.run_share, full.run_content) == (4, 4 / 6, 2)
    assert (full.lcs, full.masked) == (found.lcs, found.masked)


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
    least = Least(13, 8, 0.6, 0.6, 0.58)
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
