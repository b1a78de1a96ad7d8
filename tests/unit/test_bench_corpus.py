"""The rows of bench.corpus and the account of what a screen finds among them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from bench.corpus_peers import word_ngrams
from bench.corpus_plants import KINDS, plant
from bench.corpus_rows import Plant, write_corpus
from bench.corpus_score import score
from bench.corpus_seeds import COMPETITION, GSM8K, PROTECTED, REASONING, change_numbers

FRUIT = "A farm grows {0} pears and {1} plums. It sells {2} of them. How many fruits are left over?"
SIDES = "Let $n = {0} + {1}$ be the sides of a polygon. Find its number of diagonals $d$."
TRACE = "There are {0} at first. Then {1} go. So {2} are left. The answer is $\\boxed{{{2}}}$."


def lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    """A folder with three rows in place of every public file."""
    folder = tmp_path / "seeds"
    for name, path in PROTECTED.items():
        texts = [f"Only in {name} asks one about {i} red hats of {i + 20} kinds?" for i in range(9)]
        lines(folder / path, [{"problem": text, "answer": "4"} for text in texts])
    train = range(30, 33)
    worked = "It is <<2*2=4>>4. Next. So it is.\n#### 4"
    lines(folder / GSM8K, [{"question": FRUIT.format(i, 9, 4), "answer": worked} for i in train])
    for path in COMPETITION:
        texts = [(SIDES.format(i, 5), TRACE.format(i, 1, 2)) for i in train]
        rows = [{"problem": ask, "solution": reply, "answer": "7"} for ask, reply in texts]
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(json.dumps(rows), encoding="utf-8")
    thought = "<think>Let me see. It is small. It is 12 or 13.</think>Now it is done. Yes."
    lines(folder / REASONING, [{"completion": [{"content": thought}]}])
    return folder


def test_rows_are_distinct_answered_and_the_same_for_the_same_seed(
    seeds: Path, tmp_path: Path
) -> None:
    summary = write_corpus(1_500, seeds, tmp_path / "a")
    write_corpus(1_500, seeds, tmp_path / "b")
    write_corpus(1_500, seeds, tmp_path / "c", seed=1)
    texts = [(tmp_path / name / "rows.jsonl").read_bytes() for name in "abc"]
    assert texts[0] == texts[1] != texts[2]
    rows = [json.loads(line) for line in texts[0].splitlines()]
    assert len({(row["problem"], row["solution"]) for row in rows}) == 1_500
    for row in rows:
        assert row["solution"].count("\\boxed{") == 1
        assert row["solution"].endswith(f"\\boxed{{{row['answer']}}}")
    repeated = 1_500 - len({row["problem"] for row in rows})
    assert 80 < repeated < 160
    assert summary["bytes"] == len(texts[0])
    assert 1_700 < summary["trace_characters"]["p50"] < 2_600


def test_planted_rows_are_where_the_list_says(seeds: Path, tmp_path: Path) -> None:
    write_corpus(1_500, seeds, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    planted = [json.loads(line) for line in (tmp_path / "planted.jsonl").read_text().splitlines()]
    assert {plant["kind"] for plant in planted} == set(KINDS)
    there = {plant["row"] for plant in planted}
    for number, row in enumerate(rows):
        assert ("only in" in row["problem"].lower()) == (number in there)
    for one in planted:
        source = (tmp_path / f"protected/{one['set']}.jsonl").read_text().splitlines()
        original = json.loads(source[one["index"]])["problem"]
        found = rows[one["row"]]["problem"]
        assert (found == original) == (one["kind"] == "verbatim")
        assert (original in found) == (one["kind"] in ("verbatim", "embedded"))


def test_a_seed_like_a_protected_problem_is_left_out(seeds: Path, tmp_path: Path) -> None:
    assert write_corpus(50, seeds, tmp_path)["seeds_like_protected"] == 0
    lines(seeds / PROTECTED["math500"], [{"problem": FRUIT.format(7, 8, 6), "answer": "9"}])
    summary = write_corpus(50, seeds, tmp_path)
    assert (summary["seeds_like_protected"], summary["seeds"]) == (3, 9)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("verbatim", "Let $f(x)=\\frac{x}{2}$, x even. Find f, now!"),
        ("respaced", "Let $f\\left(x\\right) = \\dfrac{x}{2}$, x even.\nFind f, now!"),
        ("recased", "let $f(x)=\\frac{x}{2}$ x even; find f now;"),
        ("embedded", "A. Leave that aside for now.\n\nLet $f(x)=\\frac{x}{2}$, x even. Find f, now!"
         "\n\nAfterwards recall: B."),
        ("edited", None),
    ],
)  # fmt: skip
def test_each_kind_of_copy(kind: str, expected: str | None) -> None:
    problem = "Let $f(x)=\\frac{x}{2}$, x even. Find f, now!"
    assert plant(problem, kind, ["A.", "B."], random.Random(0)) == expected


def test_other_numbers_have_as_many_digits_and_exponents_stay() -> None:
    text = "Add 12, 3 and 4567 to $x^{2}$ in 12345678 steps"
    changed = change_numbers(text, random.Random(3))
    assert changed != text
    assert "x^{2}" in changed
    assert changed.endswith("12345678 steps")
    assert [len(word) for word in changed.split()] == [len(word) for word in text.split()]


def test_recall_counts_planted_rows_that_were_reached_and_false_drops_the_others() -> None:
    planted = [
        Plant(0, "verbatim", "s", 0),
        Plant(2, "edited", "s", 1),
        Plant(4, "edited", "s", 2),
        Plant(9, "verbatim", "s", 3),  # dropped before: counts for nobody
    ]
    reached = [f"rows.jsonl:{row + 1}" for row in range(8)]
    result = score(planted, reached, ["rows.jsonl:1", "rows.jsonl:5", "rows.jsonl:7"])
    assert result.found == {"verbatim": 1, "edited": 1}
    assert result.planted == {"edited": 2, "verbatim": 1}
    assert result.recall == pytest.approx(2 / 3)
    assert (result.false_drops, result.clean) == (1, 5)
    with pytest.raises(ValueError, match="row 9"):
        score(planted, reached, ["rows.jsonl:10"])


def test_the_peers_rule_is_any_shared_run_of_words_punctuation_aside() -> None:
    assert word_ngrams("One, two; THREE four", 3) == {"one two three", "two three four"}
    assert word_ngrams("one two", 3) == set()
