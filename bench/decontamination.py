"""Precision and recall of the stage decontaminate beside two n-gram rules: the tables of
docs/decontamination.md.

    python -m bench.decontamination FOLDER [--shown 20]

FOLDER holds bench/math500.jsonl (MATH-500), train/msswift_rft_math.json and
train/rllm/math_train.json (training sets) and decontam/: the pairs and s1K of the
repository ademcodesproducts/contamination-audit. Every file goes through the stages
semantic (embedded model) and decontaminate as a corpus of its own, once with and once
without neighbours, in a temporary folder. The rules that stand beside are what most
projects use: one shared run of 8 or of 13 words (letters and digits, lower case).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipeline.base.artifacts import read_json, read_jsonl, sha256_file, write_json, write_text
from pipeline.base.records import Trace, problem_id, write_rows
from pipeline.corpus.rows.wrappers import strip_wrapper

ROOT = Path(__file__).resolve().parent.parent
OTHER_WRAPPER = "Return your final response within \\boxed{}."
DROPPED = ("copy", "edited", "paraphrase")
CONTAMINATED = frozenset(
    (
        *(0, 1, 5, 7, 9, 11, 12, 14, 16, 17, 19, 21, 24, 27, 28, 30, 32, 36, 38, 40),
        *(47, 50, 52, 55, 62, 64, 66, 69, 73, 74, 75, 89, 90),
    )
)
"""Lines (from 0) of openthoughts_c_lex.jsonl labelled contaminated: the same problem, the
same set-up, or numbers and symbols edited; the first row of them is confirmed by people in
lexical_contamination_confirmed.csv. The others share wording, a note or drawing code."""
TRUE_S1K = frozenset((81, 124, 181, 498, 933))
"""Rows of s1K that repeat a MATH-500 problem, by reading all that any rule but the 8-gram's
flags; the first four are confirmed in lexical_contamination_confirmed.csv."""

Pair = tuple[str, str]
"""Problem ids of a training problem and of a protected one."""


@dataclass
class Outcome:
    """What a run of the stages said."""

    report: dict[str, Any]
    classes: dict[Pair, str] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def problem_classes(self) -> dict[str, str]:
        """Training problem → its strongest class; rows come strongest first."""
        found: dict[str, str] = {}
        for row in self.rows:
            found.setdefault(row["id"], row["class"])
        return found


def text_of(problem: str) -> str:
    """A problem without what its data set wraps around it."""
    return strip_wrapper(problem.strip().removeprefix(OTHER_WRAPPER))


def trace_of(problem: str, number: int) -> Trace:
    """A row for the stages; only its problem matters here."""
    key, place = problem_id(problem), f"t:{number}"
    return Trace(key, problem, "", "", "", "t", place, 1, key, "unknown", None, 1.0)


def run_stages(problems: Sequence[str], protected: Path, *, near: bool) -> Outcome:
    """Run semantic and decontaminate on some problems, each as a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = (trace_of(problem, number) for number, problem in enumerate(problems))
        write_rows(folder / "work/filter/kept.jsonl", rows)
        write_text(folder / "work/filter/panel.jsonl", "")
        entry = {"path": str(protected), "bytes": 0, "sha256": sha256_file(protected)}
        write_json(folder / "work/prepare/protected.json", [entry])
        given = YAML().load((ROOT / "presets/demo.yaml").read_text(encoding="utf-8"))
        given["semantic"]["model"] = "embedded" if near else None
        with (folder / "params.yaml").open("w", encoding="utf-8") as stream:
            YAML().dump(given, stream)
        for stage in ("semantic", "decontaminate"):
            command = [sys.executable, "-m", f"pipeline.{stage}"]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            subprocess.run(command, cwd=folder, env=environment, check=True, stdout=sys.stderr)
        outcome = Outcome(read_json(folder / "work/decontaminate/report.json"))
        outcome.rows = list(read_jsonl(folder / "work/decontaminate/review.jsonl"))
    for row in outcome.rows:
        outcome.classes[row["id"], row["protected_id"]] = row["class"]
    return outcome


def words(problem: str) -> list[str]:
    """Words as the compared rules cut them."""
    return re.findall(r"[a-z0-9]+", problem.lower())


def runs(problem: str, size: int) -> set[tuple[str, ...]]:
    """Every run of `size` words."""
    cut = words(problem)
    return {tuple(cut[start : start + size]) for start in range(len(cut) - size + 1)}


@dataclass(frozen=True, slots=True)
class Labelled:
    """Pairs with a label each."""

    name: str
    pairs: list[tuple[str, str, bool]]
    """Training problem, protected problem, contaminated."""


def labelled_sets(folder: Path) -> Iterator[Labelled]:
    """The labelled pairs of the folder."""
    home = folder / "decontam"
    lines = list(read_jsonl(home / "openthoughts_c_lex.jsonl"))
    yield Labelled("c_lex", [_pair(row, i in CONTAMINATED) for i, row in enumerate(lines)])
    yield Labelled(
        "confirmed",
        [_pair(row, True) for row in _table(home, "lexical_contamination_confirmed.csv")],
    )
    yield Labelled(
        "c_sem", [_pair(row, True) for row in read_jsonl(home / "openthoughts_c_sem.jsonl")]
    )
    yield Labelled(
        "perturbed", [_pair(row, True) for row in _table(home, "perturbations_sample.csv")]
    )


def _table(home: Path, name: str) -> list[dict[str, str]]:
    with (home / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _pair(row: dict[str, str], label: bool) -> tuple[str, str, bool]:
    return text_of(row["train_problem"]), row["math500_problem"], label


def print_pairs(folder: Path, protected: Path) -> None:
    """Table of the labelled pairs: found among the contaminated, and among the others."""
    print("| pairs | rule | contaminated: dropped | or reviewed | others: dropped | or reviewed |")
    print("|---|---|---:|---:|---:|---:|")
    for one in labelled_sets(folder):
        training = [training for training, _, _ in one.pairs]
        for near in (False, True):
            outcome = run_stages(training, protected, near=near)
            said = [outcome.classes.get((problem_id(a), problem_id(b))) for a, b, _ in one.pairs]
            _print_rule(one, "ours with cosines" if near else "ours", said)
        for size in (13, 8):
            hit = ["copy" if runs(a, size) & runs(b, size) else None for a, b, _ in one.pairs]
            _print_rule(one, f"{size} words", hit)


def _print_rule(one: Labelled, rule: str, said: Sequence[str | None]) -> None:
    cells = []
    for label in (True, False):
        mine = [name for name, (_, _, real) in zip(said, one.pairs, strict=True) if real == label]
        dropped = sum(name in DROPPED for name in mine)
        reviewed = dropped + sum(name == "review" for name in mine)
        cells += [f"{dropped} of {len(mine)}" if mine else "", str(reviewed) if mine else ""]
    print(f"| {one.name} | {rule} | {' | '.join(cells)} |")


def print_s1k(folder: Path, protected: Path) -> None:
    """Table of s1K, a set with few true copies: what each rule flags."""
    rows = json.loads((folder / "decontam/hist_s1k.json").read_text(encoding="utf-8"))
    problems = [text_of(row["problem"]) for row in rows]
    clean = {
        problem_id(row["problem"]) for row in read_jsonl(folder / "decontam/clean_baseline.jsonl")
    }
    asked = [row["problem"] for row in read_jsonl(protected)]
    print(
        "\n| rule | s1K rows dropped | of them right | reviewed | of them because of a clean item |"
    )
    print("|---|---:|---:|---:|---:|")
    for near in (False, True):
        outcome = run_stages(problems, protected, near=near)
        found = outcome.problem_classes()
        flagged = [i for i, one in enumerate(problems) if found.get(problem_id(one)) in DROPPED]
        reviewed = sum(name == "review" for name in found.values())
        false = sum(
            row["class"] in DROPPED and row["protected_id"] in clean for row in outcome.rows
        )
        name = "ours with cosines" if near else "ours"
        print(
            f"| {name} | {len(flagged)} | {len(TRUE_S1K & set(flagged))} | {reviewed} | {false} |"
        )
    for size in (13, 8):
        known = [(runs(one, size), problem_id(one) in clean) for one in asked]
        hits = [
            [is_clean for held, is_clean in known if held & runs(one, size)] for one in problems
        ]
        flagged = [i for i, hit in enumerate(hits) if hit]
        false = sum(any(hit) for hit in hits)
        print(f"| {size} words | {len(flagged)} | {len(TRUE_S1K & set(flagged))} | | {false} |")


def print_training(folder: Path, protected: Path, shown: int) -> None:
    """What the stages find in two training sets; `shown` pairs of each for the eye."""
    rft = json.loads((folder / "train/msswift_rft_math.json").read_text(encoding="utf-8"))
    rllm = json.loads((folder / "train/rllm/math_train.json").read_text(encoding="utf-8"))
    for name, rows in (("msswift_rft_math", rft.values()), ("rllm math_train", rllm)):
        outcome = run_stages([text_of(row["problem"]) for row in rows], protected, near=False)
        methods: Counter[str] = Counter()
        for one in outcome.report["sets"]:
            methods.update(one["methods"])
        print(
            f"\n{name}: {outcome.report['classes']}, methods {dict(methods)}, excused "
            f"{outcome.report['excused']}, genres {len(outcome.report['genres'])}"
        )
        step = max(1, len(outcome.rows) // max(1, shown))
        for row in outcome.rows[::step][:shown]:
            print(
                f"- {row['class']} {row['methods']}\n  P {' '.join(row['protected'].split())[:240]}"
                f"\n  T {' '.join(row['training'].split())[:240]}"
            )


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shown", type=int, default=0, help="pairs to print for the eye")
    given = parser.parse_args()
    folder = given.folder.resolve()
    protected = folder / "bench/math500.jsonl"
    print_pairs(folder, protected)
    print_s1k(folder, protected)
    print_training(folder, protected, given.shown)


if __name__ == "__main__":
    main()
