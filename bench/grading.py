"""Grading policies beside lm-evaluation-harness and Math-Verify, on recorded answers.

    python -m bench.grading FOLDER --peer-python PATH

FOLDER holds the files that grading_data.py names; PATH is an interpreter with
`lm-eval[math]` (grading_peers.py). Prints Markdown: parity of the policy `harness` on all
recorded answers and 10,000 generated pairs (exit 1 unless it is complete), wrong verdicts
of each grader against the files' labels with every disagreement, and time and memory of
10,000 hostile answers under the policy `symbolic`. Figures go to bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.grading_data import Answer, recorded
from bench.grading_pairs import hostile, pairs
from pipeline.base.grading import Verdict
from pipeline.base.policies import POLICIES, Grader, Policy

GRADERS = (*POLICIES, "lm-eval", "Math-Verify")
UNEQUAL_BY_EYE = {(r"\frac9{19}", r"\frac919")}
"""Of the boxed answers without a label on which graders differ, the (gold, box) that are not
equal when read by eye: TeX reads the second as 9/1 times 9. All others are equal."""
EYE = "by eye"


def peers(
    python: str, asked: Sequence[tuple[str, str]], *, harness_only: bool = False
) -> tuple[dict[str, str], list[tuple[bool, bool | None]]]:
    """The peers' versions, and (lm-eval, Math-Verify) verdicts of each pair."""
    script = Path(__file__).with_name("grading_peers.py")
    command = [python, str(script), *(["--harness-only"] if harness_only else [])]
    lines = "".join(json.dumps(pair) + "\n" for pair in asked)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    versions, *found = map(json.loads, done.stdout.splitlines())
    return versions, [(one["harness"], one["math_verify"]) for one in found]


def parity(name: str, asked: Sequence[tuple[str, str]], theirs: Sequence[bool]) -> int:
    """Print how many verdicts of `harness` equal lm-eval's; return how many differ.

    Rows that no policy grades (unreadable gold) are counted apart.
    """
    with Grader("harness") as grader:
        ours = [grader.grade(reply, gold) for reply, gold in asked]
    graded = [(v.correct, peer) for v, peer in zip(ours, theirs) if v.reason != "unreadable-gold"]
    differ = sum(mine != peer for mine, peer in graded)
    left_out = len(ours) - len(graded)
    print(f"| {name} | {len(graded):,} | {sum(theirs):,} | {left_out:,} | {differ:,} |")
    return differ


def labels(answer: Answer, verdicts: dict[str, bool], box: str) -> tuple[str, bool] | None:
    """The column of an answer and what is right; None for an answer outside a box.

    Where the file has no label, graders that agree are right and otherwise the eye is.
    """
    if answer.label is not None:
        return answer.source, answer.label
    if not box:
        return None
    agreed = set(verdicts.values())
    return EYE, agreed.pop() if len(agreed) == 1 else (answer.gold, box) not in UNEQUAL_BY_EYE


def labelled(
    answers: Sequence[Answer],
    ours: Sequence[dict[Policy, Verdict]],
    theirs: Sequence[tuple[bool, bool | None]],
) -> None:
    """Print wrong verdicts against the labels, then each disagreement once."""
    wrong: dict[str, Counter[str]] = {grader: Counter() for grader in GRADERS}
    counts: Counter[str] = Counter()
    seen: Counter[tuple[str, ...]] = Counter()
    for answer, mine, (harness, math_verify) in zip(answers, ours, theirs):
        given = {str(name): verdict.correct for name, verdict in mine.items()}
        verdicts = {**given, "lm-eval": harness, "Math-Verify": bool(math_verify)}
        box = mine["strict"].answer
        found = labels(answer, verdicts, box)
        if found is None:
            continue
        column, right = found
        counts[column] += 1
        missed = [name for name in GRADERS if verdicts[name] != right]
        for name in missed:
            wrong[name][column] += 1
        if missed:
            seen[(column, answer.gold, box[:60], str(right), ", ".join(missed))] += 1
    print("\n| wrong verdicts |", " | ".join(f"{name} ({counts[name]:,})" for name in counts), "|")
    print("|---|" + "---:|" * len(counts))
    for name in GRADERS:
        print(f"| {name} |", " | ".join(str(wrong[name][column]) for column in counts), "|")
    print("\n| label of | gold | box | equal | graders that say otherwise | times |")
    print("|---|---|---|---|---|---:|")
    for (column, gold, read, right_text, missed_by), times in seen.most_common():
        print(f"| {column} | `{gold}` | `{read}` | {right_text} | {missed_by} | {times} |")


def speed(name: str, asked: Sequence[tuple[str, str]]) -> None:
    """Print time and memory of grading pairs under `symbolic`."""
    times: list[float] = []
    reasons: Counter[str] = Counter()
    with Grader("symbolic") as grader:
        grader.grade("\\boxed{x+x}", "2x")
        for reply, gold in asked:
            started = time.perf_counter()
            reasons[grader.grade(reply, gold).reason] += 1
            times.append(1000 * (time.perf_counter() - started))
    times.sort()
    middle, late = times[len(times) // 2], times[int(0.99 * len(times))]
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\n{len(times):,} {name} answers: median {middle:.2f} ms, p99 {late:.1f} ms,", end=" ")
    print(f"longest {times[-1]:.0f} ms; peak memory {own:.0f} MiB, of a worker {child:.0f} MiB.")
    print("Reasons:", ", ".join(f"{name} {count:,}" for name, count in reasons.most_common()))


def main() -> int:
    """Print all tables."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--peer-python", required=True)
    given = options.parse_args()
    answers = recorded(given.folder)
    asked = [(answer.reply, answer.gold) for answer in answers]
    versions, theirs = peers(given.peer_python, asked)
    generated = pairs()
    _, made = peers(given.peer_python, generated, harness_only=True)
    print("Against", ", ".join(f"{name} {version}" for name, version in versions.items()), "\n")
    print("| answers | graded | right by lm-eval | unreadable golds | verdicts that differ |")
    print("|---|---:|---:|---:|---:|")
    differ = parity("recorded", asked, [harness for harness, _ in theirs])
    differ += parity("generated", generated, [harness for harness, _ in made])
    with Grader("symbolic") as grader:
        ours = [grader.grade_by_all(*pair) for pair in asked]
    labelled(answers, ours, theirs)
    speed("hostile", hostile())
    speed("generated", generated)
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
