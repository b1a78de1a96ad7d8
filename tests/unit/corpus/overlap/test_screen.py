"""The batch finds the very pairs that the plain rules find, and reads lines exactly."""

from __future__ import annotations

import json
import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.base.records import Problem, problem_id, to_line
from pipeline.corpus.overlap.protected_index import (
    LEAST_MASKED,
    MASKED_SHARE,
    MASKED_WORDS,
    MIN_CONTAINED_TOKENS,
    ProtectedIndex,
    build_index,
)
from pipeline.corpus.overlap.screen import Screen, ids_of, problems_of
from pipeline.corpus.overlap.tokens import masked_words, ngrams, tokens_of, words_of
from tests.support.traces import make_trace

WORDS = "a the sum of two odd numbers 3 12 x y is even find prove circle has area + - =".split()


def items(problems: list[str]) -> list[Problem]:
    return [Problem(problem_id(one), one, "", "s", f"s:{i}") for i, one in enumerate(problems)]


def expected(index: ProtectedIndex, problem: str) -> set[int]:
    """Pairs by the plain rules, run by run."""
    tokens = tokens_of(problem)
    words = words_of(tokens)
    found = set(index.by_text.get(" ".join(tokens), ()))
    for table, runs in (
        (index.seeds, ngrams(words, index.seed_size)),
        (index.anchors, ngrams(tokens, MIN_CONTAINED_TOKENS)),
    ):
        for run in runs:
            found.update(table.get(run, ()))
    masked = list(ngrams(masked_words(words), MASKED_WORDS))
    counts = Counter(item for run in set(masked) for item in index.masked.get(run, ()))
    for item, count in counts.items():
        shorter = min(len(masked), index.masked_runs[item])
        if count >= max(LEAST_MASKED, MASKED_SHARE * shorter):
            found.add(item)
    return found


def sentences(seed: int, count: int) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choices(WORDS, k=source.randint(0, 30))) for _ in range(count)]


@given(st.integers(0, 10_000), st.sampled_from([3, 6, 13]))
def test_suspects_equal_the_plain_rules(seed: int, size: int) -> None:
    protected = sentences(seed, 12)
    training = [*sentences(seed + 1, 20), protected[0], f"so {protected[1]} then {protected[2]}"]
    index = build_index(items(protected), size)
    found = {one.row: set(one.items) for one in Screen(index).suspects(training)}
    wanted = {row: expected(index, one) for row, one in enumerate(training)}
    assert found == {row: pairs for row, pairs in wanted.items() if pairs}


def test_two_masked_runs_make_a_candidate_and_one_does_not() -> None:
    screen = Screen(build_index(items(["Red boats sail past 4 green isles."]), 13))
    assert screen.suspects(["Red boats sail past 9 green birds."]) != []
    assert screen.suspects(["Red boats sail past 9 grey birds."]) == []


def test_what_shares_most_comes_first_and_the_list_is_bounded() -> None:
    story = "a fox jumps over the lazy dog and runs away from the old brown barn at noon"
    protected = [story, *(f"{story} again and {'so ' * n}on" for n in range(1, 30))]
    (suspect,) = Screen(build_index(items(protected), 13)).suspects([f"once {story}"])
    assert len(suspect.items) == 16
    assert math.isclose(suspect.row, 0)
    (exact,) = Screen(build_index(items(protected), 13)).suspects([protected[7]])
    assert exact.items[0] == 7


def test_nothing_protected_finds_nothing() -> None:
    assert Screen(build_index([], 13)).suspects(["Why?", ""]) == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=4))
def test_problems_and_ids_are_read_from_lines(problems: list[str]) -> None:
    traces = [make_trace(one, solution='","gold":"', thinking='"problem":"') for one in problems]
    lines = [to_line(trace) for trace in traces]
    assert problems_of(lines) == problems
    assert [f"{one:016x}" for one in ids_of(lines)] == [trace.id for trace in traces]


def test_lines_of_another_layout_are_read_too() -> None:
    trace = make_trace('What is "2","gold":"?')
    row = json.dumps(json.loads(to_line(trace)), indent=None).encode()
    assert problems_of([row]) == [trace.problem]
    assert [f"{one:016x}" for one in ids_of([row])] == [trace.id]
    with pytest.raises(UserError, match="missing field"):
        problems_of([b'{"id":"0"}'])
