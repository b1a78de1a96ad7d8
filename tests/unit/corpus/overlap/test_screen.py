"""The batch finds the very pairs that the plain rules find, and reads lines exactly."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.base.records import Problem, problem_id, to_line
from pipeline.corpus.overlap.judgement import Judge
from pipeline.corpus.overlap.protected_index import (
    MIN_CONTAINED_TOKENS,
    ProtectedIndex,
    build_index,
    is_wording,
)
from pipeline.corpus.overlap.protected_runs import COMMON_MASKED, MASKED_WORDS, SEED_WORDS
from pipeline.corpus.overlap.screen import (
    LEAST_MASKED,
    MASKED_SHARE,
    Screen,
    Suspect,
    ids_of,
    problems_of,
)
from pipeline.corpus.overlap.tokens import MASK, masked_words, ngrams, tokens_of, words_of
from tests.support.traces import make_trace

Gram = tuple[str, ...]
WORDS = "a the sum of two odd numbers 3 12 x y is even find prove circle has area + - =".split()


def items(problems: list[str]) -> list[Problem]:
    return [Problem(problem_id(one), one, "", "s", f"s:{i}") for i, one in enumerate(problems)]


def held(runs: Iterable[tuple[int, Gram]]) -> dict[Gram, list[int]]:
    """Run → protected problems that hold it, ascending."""
    found: dict[Gram, list[int]] = {}
    for item, run in dict.fromkeys(runs):
        found.setdefault(run, []).append(item)
    return found


def expected(index: ProtectedIndex, problem: str) -> set[int]:
    """Pairs by the plain rules, run by run."""
    tokens = [tokens_of(item.problem) for item in index.items]
    words = [words_of(one) for one in tokens]
    size = min(SEED_WORDS, index.size)
    grams = held((i, run) for i, one in enumerate(words) for run in ngrams(one, index.size))
    certain = {run[:size] for run, found in grams.items() if not is_wording(index, found)}
    seeds = held((i, run) for i, one in enumerate(words) for run in ngrams(one, size))
    mine = tokens_of(problem)
    found = {i for i, one in enumerate(tokens) if one and one == mine}
    for run in ngrams(words_of(mine), size):
        if run in certain or not is_wording(index, seeds.get(run, [])):
            found.update(seeds.get(run, ()))
    runs = set(ngrams(mine, MIN_CONTAINED_TOKENS))
    counts = Counter(run for one in tokens for run in ngrams(one, MIN_CONTAINED_TOKENS))
    for item, one in enumerate(tokens):
        if index.is_short(item):
            anchors = ngrams(one, MIN_CONTAINED_TOKENS)
            if min(anchors, key=lambda run: (counts[run], run)) in runs:
                found.add(item)
    return found | alike(words, words_of(mine))


def alike(protected: list[list[str]], training: list[str]) -> set[int]:
    """Problems that share enough masked runs."""
    every = [list(ngrams(masked_words(one), MASKED_WORDS)) for one in protected]
    places = held((i, run) for i, one in enumerate(every) for run in one)
    rare = {
        run: found
        for run, found in places.items()
        if run.count(MASK) <= MASKED_WORDS // 2 and len(found) <= COMMON_MASKED
    }
    own = Counter(item for found in rare.values() for item in found)
    mine = list(ngrams(masked_words(training), MASKED_WORDS))
    counts = Counter(item for run in set(mine) for item in rare.get(run, ()))
    return {
        item
        for item, count in counts.items()
        if count >= max(LEAST_MASKED, MASKED_SHARE * min(len(mine), own[item]))
    }


def sentences(seed: int, count: int) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choices(WORDS, k=source.randint(0, 30))) for _ in range(count)]


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([3, 6, 13]))
def test_suspects_equal_the_plain_rules(seed: int, size: int) -> None:
    protected = sentences(seed, 12)
    training = [*sentences(seed + 1, 20), protected[0], f"so {protected[1]} then {protected[2]}"]
    index = build_index(items(protected), size)
    found = {one.row: set(one.items) for one in Screen(index).suspects(training)}
    wanted = {row: expected(index, one) for row, one in enumerate(training)}
    assert found == {row: pairs for row, pairs in wanted.items() if pairs}


def variants(seed: int, count: int) -> list[str]:
    """Sentences, each followed by some that differ from it in a word or in length."""
    source = random.Random(seed)
    found = []
    for one in sentences(seed, count):
        words = one.split()
        for _ in range(4):
            changed = [source.choice(WORDS) if source.random() < 0.1 else word for word in words]
            found.append(" ".join([*source.choices(WORDS, k=source.randint(0, 3)), *changed]))
        found += [one, one + one, " ".join(words[: len(words) // 2]), one.replace("+", "-")]
    return found


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([3, 6, 9, 13]))
def test_no_pair_that_a_rule_holds_for_is_left_out(seed: int, size: int) -> None:
    protected = sentences(seed, 6)
    training = variants(seed, 6)
    index = build_index(items(protected), size)
    screen, judge = Screen(index), Judge(index)

    def judged(rows: list[Suspect]) -> dict[int, set[int]]:
        found = {one.row: {p.item for p in judge.pairs(one.problem, one.items)} for one in rows}
        return {row: pairs for row, pairs in found.items() if pairs}

    assert judged(screen.hopeful(training)) == judged(screen.suspects(training))


def test_a_pair_that_shares_little_is_left_out_and_counts_too_large_bound_nothing() -> None:
    story = "the old miller sold seven sacks of barley before the fair in the town of Arles"
    screen = Screen(build_index(items([f"{story} and then went home by boat"]), 13))
    other = f"{story[:62]} while nineteen green parrots, unseen by everybody, ate ripe cherries"
    assert screen.suspects([other, story]) != []
    assert screen.hopeful([other]) == []
    assert [one.row for one in screen.hopeful([other, story, other])] == [1]
    assert screen.hopeful([f"{other} {'ox ' * 300}"]) != []


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
    assert Screen(build_index([], 13)).hopeful(["Why?", ""]) == []


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
