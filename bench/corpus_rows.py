"""Rows for `bench.corpus`: real problems and solutions, recombined by a seed.

    python -m bench.corpus_rows --rows 200000 --seed-data FOLDER --out FOLDER

Reads public files, under FOLDER/train GSM8K train (`gsm8k_train_orig.jsonl`), MATH and AIME
training problems (`rllm/math_train.json`, `rllm/aime_train.json`), worked solutions
(`o1pruner_math_train_hard.json`) and long reasoning (`intellect3_sft_sample_256.jsonl`); under
FOLDER/bench the protected sets of `corpus_seeds.PROTECTED`. Writes rows.jsonl (id, problem,
solution, answer), planted.jsonl (row, kind, set, index), protected/NAME.jsonl and rows.json
(the distribution). Equal arguments give equal bytes.

A problem is the set-up of one seed and the question of another, or one seed alone, always with
other numbers; some are asked twice with another trace, some again with one word changed. A trace
is a chain of runs of sentences from real solutions, as long as a log-normal law says, numbers
changed, ending in the row's answer, boxed.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from bench.corpus_plants import KINDS, plant
from bench.corpus_seeds import Seed, change_numbers, read_documents, read_protected, read_seeds

MEDIAN_CHARACTERS = 2_000
"""Median length of a trace; MATH-style traces of small teachers are of this size."""
SPREAD = 0.8
"""Standard deviation of the logarithm of the length."""
MAX_CHARACTERS = 40_000
PLANTED_SHARE = 0.01
SECOND_TRACE_SHARE = 0.08
NEAR_COPY_SHARE = 0.02
MIX_SHARE = 0.6
"""Of the other problems: set-up and question from different seeds."""
RUN_SENTENCES = (3, 12)
DRAWING = "[asy]"
ENDING = "That settles it."
"""Last sentence of the reasoning, for its runs may end in the middle of a thought."""
REMEMBERED = 2_000
"""Recent problems among which further traces and near copies choose."""


@dataclass(frozen=True, slots=True)
class Plant:
    """A protected problem that was put among the rows."""

    row: int
    """0-based."""
    kind: str
    set: str
    index: int


@dataclass
class Maker:
    """Everything that the rows are drawn from."""

    seeds: list[list[Seed]]
    """One list a family: sentences are not mixed between families."""
    documents: list[list[str]]
    protected: list[tuple[str, int, Seed]]
    random: random.Random

    def problem(self) -> tuple[str, str]:
        """A new problem and its answer."""
        family = self.random.choices(self.seeds, [len(one) for one in self.seeds])[0]
        asked = self.random.choice(family)
        sentences = asked.sentences
        if self.random.random() < MIX_SHARE:
            other = self.random.choice(family)
            # A drawing that is opened and not closed would hide what follows from any reader.
            if DRAWING not in asked.problem + other.problem:
                sentences = [*(other.sentences[:-1] or other.sentences), sentences[-1]]
        return change_numbers(" ".join(sentences), self.random), asked.answer

    def near_copy(self, problem: str) -> str:
        """The problem with one plain word replaced by another."""
        words = problem.split(" ")
        plain = [place for place, word in enumerate(words) if word.isalpha()]
        if plain:
            words[self.random.choice(plain)] = self.random.choice(["given", "certain", "same"])
        return " ".join(words)

    def trace(self, answer: str) -> str:
        """Reasoning in think tags and a reply with the boxed answer."""
        wanted = self.random.lognormvariate(math.log(MEDIAN_CHARACTERS), SPREAD)
        wanted = min(wanted, MAX_CHARACTERS)
        parts: list[str] = []
        length = 0
        while length < wanted:
            document = self.random.choice(self.documents)
            start = self.random.randrange(len(document))
            run = document[start : start + self.random.randint(*RUN_SENTENCES)]
            ends = accumulate(len(sentence) + 1 for sentence in run)
            fitting = sum(end <= wanted - length for end in ends)
            parts.append(" ".join(run[: max(1, fitting)]))
            length += len(parts[-1]) + 2
        thinking = change_numbers("\n\n".join([*parts, ENDING]), self.random)
        closing = change_numbers(" ".join(self.random.choice(self.documents)[-2:]), self.random)
        return f"<think>\n{thinking}\n</think>\n\n{closing}\n\n\\boxed{{{answer}}}"

    def plants(self) -> Iterator[tuple[str, str, int, str, str]]:
        """(kind, set, index, problem, answer) without end, each pair of kind and problem once."""
        order = self.protected[:]
        others = [one for family in self.seeds for one in family if DRAWING not in one.problem]
        self.random.shuffle(order)
        for turn in range(len(KINDS)):
            for place, (name, index, seed) in enumerate(order):
                kind = KINDS[(place + turn) % len(KINDS)]
                around = [self.random.choice(others).sentences[0] for _ in range(2)]
                text = plant(seed.problem, kind, around, self.random)
                if text is not None:
                    yield kind, name, index, text, seed.answer


def make_rows(maker: Maker, count: int) -> Iterator[tuple[dict[str, Any], Plant | None]]:
    """Distinct rows and, for planted ones, what they hold."""
    plants = maker.plants()
    recent: list[tuple[str, str]] = []
    seen: set[int] = set()
    for row in range(count):
        what = maker.random.random()
        planted = None
        if what < PLANTED_SHARE:
            kind, name, index, problem, answer = next(plants)
            planted = Plant(row, kind, name, index)
        elif what < PLANTED_SHARE + SECOND_TRACE_SHARE and recent:
            problem, answer = maker.random.choice(recent)
        else:
            copies = PLANTED_SHARE + SECOND_TRACE_SHARE + NEAR_COPY_SHARE
            problem, answer = _new(maker, recent if what < copies else [], seen)
            recent.append((problem, answer))
            del recent[:-REMEMBERED]
        fields = {"id": f"row-{row:07d}", "problem": problem, "solution": maker.trace(answer)}
        yield fields | {"answer": answer}, planted


def _new(maker: Maker, recent: list[tuple[str, str]], seen: set[int]) -> tuple[str, str]:
    while True:
        if recent:
            problem, answer = maker.random.choice(recent)
            problem = maker.near_copy(problem)
        else:
            problem, answer = maker.problem()
        if hash(problem) not in seen:
            seen.add(hash(problem))
            return problem, answer


def quantiles(lengths: list[int]) -> dict[str, int]:
    """5th, 50th, 95th percentile, the largest and the mean."""
    ordered = sorted(lengths)
    found = {f"p{share}": ordered[len(ordered) * share // 100] for share in (5, 50, 95)}
    return found | {"max": ordered[-1], "mean": sum(ordered) // len(ordered)}


def write_corpus(rows: int, seed_data: Path, out: Path, seed: int = 0) -> dict[str, Any]:
    """Write the rows and what is known of them; returns the contents of rows.json."""
    protected = read_protected(seed_data)
    seeds, left_out = read_seeds(seed_data, [one for _, _, one in protected])
    maker = Maker(seeds, read_documents(seed_data), protected, random.Random(seed))
    out.mkdir(parents=True, exist_ok=True)
    _write_protected(out / "protected", protected)
    problems: list[int] = []
    traces: list[int] = []
    planted: list[Plant] = []
    with (out / "rows.jsonl").open("w", encoding="utf-8") as stream:
        for fields, one in make_rows(maker, rows):
            stream.write(json.dumps(fields, ensure_ascii=False) + "\n")
            problems.append(len(fields["problem"]))
            traces.append(len(fields["solution"]))
            planted += [one] if one else []
    with (out / "planted.jsonl").open("w", encoding="utf-8") as stream:
        for one in planted:
            named = {"row": one.row, "kind": one.kind, "set": one.set, "index": one.index}
            stream.write(json.dumps(named) + "\n")
    summary = {
        "rows": rows,
        "seed": seed,
        "bytes": (out / "rows.jsonl").stat().st_size,
        "problem_characters": quantiles(problems),
        "trace_characters": quantiles(traces),
        "planted": dict(sorted(Counter(one.kind for one in planted).items())),
        "protected": len(protected),
        "seeds": sum(map(len, seeds)),
        "seeds_like_protected": left_out,
        "documents": len(maker.documents),
    }
    (out / "rows.json").write_text(json.dumps(summary, indent=1) + "\n")
    return summary


def _write_protected(folder: Path, protected: list[tuple[str, int, Seed]]) -> None:
    folder.mkdir(exist_ok=True)
    for name in dict.fromkeys(name for name, _, _ in protected):
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as stream:
            for other, _, seed in protected:
                if other == name:
                    fields = {"problem": seed.problem, "answer": seed.answer}
                    stream.write(json.dumps(fields, ensure_ascii=False) + "\n")


def main() -> None:
    """Write the rows and print their distribution."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seed-data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(json.dumps(write_corpus(given.rows, given.seed_data, given.out, given.seed), indent=1))


if __name__ == "__main__":
    main()
