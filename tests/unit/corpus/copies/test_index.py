"""What only the whole set can show: copies, contradictions, clashes, canned replies, hold-outs."""

from __future__ import annotations

import tracemalloc
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.base.params import Params
from pipeline.base.records import problem_id
from pipeline.corpus.copies.decisions import HoldoutWish
from pipeline.corpus.copies.index import JudgedShards, reduce_entries
from pipeline.corpus.copies.shard_store import ENTRY, PROBLEM
from pipeline.corpus.copies.wording import are_near_copies
from pipeline.corpus.judge import sign_earlier
from tests.support.filtering import Filtered, row, run_filter
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_tokenizer

LENIENT = {"filter.max_unreadable_share": 1.0, "filter.canned_problems": 99}
PARAMS = make_params(**LENIENT)
STORY = (
    "A farmer in the village has {n} cows and gives {k} of them to the friend who helped him "
    "through the long winter. How many cows does the farmer have when the spring comes at last?"
)

NAMES = ("farmer", "rancher", "shepherd", "peasant")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    write_tiny_tokenizer(folder)
    return folder


def run(
    base: Path, folder: Path, *files: list[Any], params: Params = PARAMS, **more: Any
) -> Filtered:
    return run_filter(base, folder / "run", params, *files, **more)


def story(n: int, k: int = 1, name: str = "farmer") -> str:
    return STORY.format(n=n, k=k).replace("farmer", name, 1)


def test_copies_go_and_other_traces_of_a_problem_stay(base: Path, tmp_path: Path) -> None:
    first = row("What is 2 + 2?", "4", answer="4")
    blanks = row("  what is\n2 + 2 ", "4", answer=4)
    other = row("What is 2 + 2?", "4", "Two and two make", answer="4")
    found = run(base, tmp_path, [first, blanks, other], [first])
    assert [one.origin for one in found.kept] == ["f0.jsonl:1", "f0.jsonl:3"]
    assert len({one.id for one in found.kept}) == 1
    copies = [("f0.jsonl:2", "duplicate-row"), ("f1.jsonl:1", "duplicate-row")]
    assert found.reasons() == copies
    assert found.dropped[1].detail == "same as f0.jsonl:1"


def test_contradicting_answers_drop_every_copy(base: Path, tmp_path: Path) -> None:
    rows = [
        row("A?", "1/2", answer="1/2"),
        row("A?", "0.5", answer="0.5"),
        row("B?", "7", answer="7"),
    ]
    assert len(run(base, tmp_path / "one", rows).kept) == 3
    found = run(base, tmp_path / "two", [*rows, row("a", "3", answer="3")])
    assert [one.problem for one in found.kept] == ["B?"]
    assert [reason for _, reason in found.reasons()] == ["gold-conflict"] * 3
    assert found.dropped[0].detail == "'1/2' (f0.jsonl:1) and '3' (f0.jsonl:4)"


def test_a_majority_of_rows_keeps_its_answer(base: Path, tmp_path: Path) -> None:
    params = make_params(**LENIENT, **{"filter.gold_conflict": "majority"})
    rows = [
        row("A?", "4", f"{text} and so it is equal to", answer="4")
        for text in ("One", "Two", "Six")
    ]
    rows += [row("A?", "5", answer="5"), row("A?", "5", "Nobody says so, but it is")]
    found = run(base, tmp_path, rows, params=params)
    assert len(found.kept) == 3
    assert found.reasons() == [("f0.jsonl:4", "gold-minority"), ("f0.jsonl:5", "wrong-answer")]


def test_a_copied_row_has_no_second_vote(base: Path, tmp_path: Path) -> None:
    params = make_params(**LENIENT, **{"filter.gold_conflict": "majority"})
    rows = [row("A?", "4", answer="4"), row("A?", "4", answer="4"), row("A?", "5", answer="5")]
    found = run(base, tmp_path, rows, params=params)
    assert [reason for _, reason in found.reasons()] == [
        *("gold-conflict", "duplicate-row", "gold-conflict"),
    ]


def test_unproven_traces_are_graded_by_the_answer_of_another_row(
    base: Path, tmp_path: Path
) -> None:
    traces = [row("A?", "5"), row("A?", "4.0"), row("B?", "1"), row("B?", "2")]
    found = run(base, tmp_path, traces, [{"problem": "A?", "answer": "4"}])
    assert [(one.problem, one.gold) for one in found.kept] == [("A?", "4")]
    assert found.reasons() == [
        ("f0.jsonl:1", "wrong-answer"),
        ("f0.jsonl:3", "gold-conflict"),
        ("f0.jsonl:4", "gold-conflict"),
        ("f1.jsonl:1", "no-solution"),
    ]


def test_an_id_of_two_problems_is_a_clash_unless_ids_are_no_ids(base: Path, tmp_path: Path) -> None:
    rows = [row(f"Problem {n}?", str(n), answer=n, id=n) for n in range(4)]
    clash = row("Another?", "9", answer=9, id=2)
    again = row("Problem 2?", "2", "Once more:", answer=2, id=2)
    found = run(base, tmp_path / "one", [*rows, clash, again], [clash])
    assert found.reasons() == [("f0.jsonl:5", "id-clash"), ("f1.jsonl:1", "duplicate-row")]
    assert found.dropped[0].detail == "id '2' belongs to another problem"
    assert len(found.kept) == 5
    same = [row(f"Problem {n}?", str(n), answer=n, id="math") for n in range(5)]
    assert len(run(base, tmp_path / "two", same).kept) == 5


def test_near_copies_share_a_group_and_an_answer(base: Path, tmp_path: Path) -> None:
    names = ("farmer", "rancher")
    rows = [row(story(9, 1, name), "8", answer=8) for name in names]
    rows += [row(story(9, 2), "7", answer=7)]
    found = run(base, tmp_path / "one", rows)
    key = min(problem_id(story(9, 1, name)) for name in names)
    assert [one.group for one in found.kept[:2]] == [key, key]
    assert found.kept[2].group == problem_id(story(9, 2))
    assert found.reduction is not None
    summary = found.reduction.summary()
    assert (summary["problems"], summary["near_copies"]["problems"]) == (3, 2)
    assert summary["near_copies"]["groups"] == 1
    wrong = row(story(9, 1, "shepherd"), "6", answer=6)
    found = run(base, tmp_path / "two", [*rows, wrong])
    assert [one.problem for one in found.kept] == [story(9, 2)]
    assert [reason for _, reason in found.reasons()] == ["gold-conflict"] * 3


def test_replies_worded_alike_are_canned(base: Path, tmp_path: Path) -> None:
    text = "After adding up every part of the sum we are left with"
    rows = [row(f"Problem {n}?", str(n), text, answer=n) for n in range(4)]
    rows += [row("Problem 9?", "9", "We count the trees one by one and get", answer=9)]
    rows += [row("Problem 1?", f"{n}/{n}", text, answer=1) for n in range(2, 5)]
    kept = run(base, tmp_path / "a", rows, params=make_params(**{"filter.canned_problems": 4}))
    assert (len(kept.kept), kept.tally.flags["canned"]) == (8, 7)
    few = run(base, tmp_path / "b", rows, params=make_params(**{"filter.canned_problems": 5}))
    assert few.tally.flags["canned"] == 0
    strict = {"filter.canned_problems": 4, "filter.flagged": "drop"}
    found = run(base, tmp_path / "c", rows, params=make_params(**strict))
    assert [one.problem for one in found.kept] == ["Problem 9?"]
    assert [reason for _, reason in found.reasons()] == ["canned"] * 7
    assert found.tally.flags["canned"] == 7


def test_held_out_problems_leave_no_trace_behind(base: Path, tmp_path: Path) -> None:
    rows = [
        row(f"Problem {n}?", str(n), text, answer=n)
        for n in range(9)
        for text in ("So it must surely be", "It is the same as our")
    ]
    wish = HoldoutWish(3, 0.0, 0)
    found = run(base, tmp_path, [*rows, row("Unproven?", "3")], wish=wish)
    assert len(found.panel) == 3
    assert not {one.id for one in found.panel} & {one.id for one in found.kept}
    assert "Unproven?" not in {one.problem for one in found.panel}
    tally = found.tally
    assert (tally.read, tally.kept, tally.held_out, tally.reserved) == (19, 13, 6, 0)


def test_the_reserve_has_problems_with_a_stated_answer_and_their_source(
    base: Path, tmp_path: Path
) -> None:
    rows = [row(f"Problem {n}?", str(n), answer=n) for n in range(30)]
    unproven = [row(f"Unproven {n}?", str(n)) for n in range(30)]
    found = run(base, tmp_path, rows, unproven, wish=HoldoutWish(0, 0.3, 0))
    assert 2 < len(found.reserve) < 20
    assert {one.source for one in found.reserve} == {"f0.jsonl"}
    assert found.tally.reserved == len(found.reserve)
    assert not {one.id for one in found.reserve} & {one.id for one in found.kept}


def test_one_problem_stands_for_its_near_copies(base: Path, tmp_path: Path) -> None:
    rows = [row(story(n, 1, name), n - 1, answer=n - 1) for n in range(5, 25) for name in NAMES]
    found = run(base, tmp_path, rows, wish=HoldoutWish(2, 0.4, 0))
    assert len(found.panel) == 2
    assert found.tally.held_out == 2 * len(NAMES)
    assert found.tally.reserved == len(NAMES) * len(found.reserve) > 0


def test_what_earlier_runs_held_out_is_not_trained(base: Path, tmp_path: Path) -> None:
    rows = [row(story(9), "8", answer=8), row(story(7), "6", answer=6)]
    found = run(base, tmp_path, rows, earlier=(story(9, 1, "rancher"), "Another one?"))
    assert [one.problem for one in found.kept] == [story(7)]
    assert found.reasons() == [("f0.jsonl:1", "held-out-earlier")]


def write_judged(folder: Path, rows: int) -> Path:
    """A judged shard of rows that all ask something else, the dearest case; texts unused."""
    folder.mkdir(parents=True)
    entries = np.zeros(rows, dtype=ENTRY)
    ids = np.random.default_rng(0).integers(1, 2**63, rows, dtype=np.uint64)
    for name in ("problem", "digest_a", "gold", "row_id", "template"):
        entries[name] = ids
    entries["place"] = entries["problem_at"] = entries["gold_at"] = np.arange(rows)
    entries["stated"] = entries["votes"] = 1
    np.save(folder / "entries.npy", entries)
    problems = np.zeros(rows, dtype=PROBLEM)
    problems["problem"] = ids
    np.save(folder / "problems.npy", problems)
    np.save(folder / "signatures.npy", np.tile(ids, (32, 1)))
    return folder


def peak_bytes(folder: Path, rows: int) -> int:
    judged = write_judged(folder / "judged", rows)
    sign_earlier(folder / "earlier", [], 0.8)
    shards = JudgedShards([judged], [0], [0], folder / "earlier")
    tracemalloc.start()
    reduce_entries(shards, folder / "d", PARAMS.filter, HoldoutWish(9, 0.02, 0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_grows_by_less_than_200_bytes_a_row(tmp_path: Path) -> None:
    few, many = 20_000, 60_000
    grown = peak_bytes(tmp_path / "many", many) - peak_bytes(tmp_path / "few", few)
    assert grown / (many - few) < 200


PROBLEMS = st.builds(story, st.integers(5, 9), st.integers(1, 2), st.sampled_from(NAMES))
SHORT = st.sampled_from(["What is 2 + 2?", "what is  2 + 2", "What is 2 + 3?", "Find x", "Find y"])


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(PROBLEMS | SHORT, st.sampled_from(["4", "5"])), min_size=4, max_size=24),
    st.lists(PROBLEMS, max_size=2),
    st.integers(0, 3),
    st.sampled_from([700, 2**20]),
)
def test_no_problem_and_no_near_copy_is_on_two_sides(
    base: Path,
    tmp_path_factory: pytest.TempPathFactory,
    data: list[tuple[str, str]],
    earlier: list[str],
    seed: int,
    shard_bytes: int,
) -> None:
    """Whatever the rows: what is asked, reserved, known from earlier and trained is apart."""
    rows = [
        row(problem, gold, f"After step {i} it is equal to", answer=gold)
        for i, (problem, gold) in enumerate(data)
    ]
    folder = tmp_path_factory.mktemp("sides")
    majority = make_params(**LENIENT, **{"filter.gold_conflict": "majority"})
    sure = [row(f"Count the {name} once.", "1", answer=1) for name in NAMES]
    found = run(
        base, folder, sure, rows,
        params=majority, wish=HoldoutWish(1, 0.4, seed), earlier=tuple(earlier),
        shard_bytes=shard_bytes,
    )  # fmt: skip
    sides = [
        [one.problem for one in found.panel],
        [one.problem for one in found.reserve],
        earlier,
        [one.problem for one in found.kept],
    ]
    assert len(found.panel) == 1
    for number, side in enumerate(sides):
        for other in sides[number + 1 :]:
            for one in side:
                assert not any(are_near_copies(one, two, 0.8) for two in other)
    for one, other in combinations(sides[0] + sides[1], 2):
        assert not are_near_copies(one, other, 0.8), "one problem stands for its group"
    tally = found.tally
    assert tally.kept == len(found.kept)
    assert tally.dropped.total() == len(found.dropped)
    assert tally.read == tally.kept + tally.held_out + tally.reserved + len(found.dropped)
