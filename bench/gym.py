"""How fast the gym makes and grades tasks, and what each player wins.

    python -m bench.gym [--rounds 3]

Makes the train split and grades its golds, in turns; prints the best round by the clock and by
processor time. On a machine that others use, only the latter says something. Then the mean
scores of all players, and of one more that has learnt: it knows the family by the text's fields
and replies with the codes and the fix that were most frequent in 2,400 fresh tasks of it.
Figures go to bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from statistics import fmean

from pipeline.hardware.gym.audit import mean_scores
from pipeline.hardware.gym.environment import Environment, load_environment
from pipeline.hardware.gym.solver import reply
from pipeline.hardware.gym.tasks import SPLITS, Task


def timed(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Least seconds by the clock and by processor time."""
    took = []
    for _ in range(rounds):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        took.append((time.perf_counter() - wall, time.process_time() - processor))
    return min(w for w, _ in took), min(p for _, p in took)


def family_of(task: Task) -> frozenset[str]:
    """What tells a family from its text: the fields that may change."""
    return task.fields


def learnt(environment: Environment) -> float:
    """Mean score of the player that replies with what is most frequent."""
    codes: dict[frozenset[str], Counter[tuple[str, ...]]] = defaultdict(Counter)
    fixes: dict[frozenset[str], Counter[str]] = defaultdict(Counter)
    for task in load_environment(seed=77, count=2400).tasks:
        codes[family_of(task)][task.gold.codes] += 1
        fixes[family_of(task)][json.dumps(dict(task.gold.fix), sort_keys=True)] += 1
    replies = []
    for task in environment.tasks:
        family = family_of(task)
        row: dict[str, object] = {
            "diagnosis": codes[family].most_common(1)[0][0],
            "fix": json.loads(fixes[family].most_common(1)[0][0]),
        }
        if task.quantities:
            row["intermediates"] = dict.fromkeys(task.quantities)
        replies.append(json.dumps(row))
    return fmean(
        g.score for g in environment.evaluate([t.prompt for t in environment.tasks], replies)
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.gym")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    environment = load_environment("train")
    prompts = [task.prompt for task in environment.tasks]
    replies = [reply(task.gold) for task in environment.tasks]
    made = timed(lambda: load_environment("train"), rounds)
    graded = timed(lambda: environment.evaluate(prompts, replies), rounds)
    print(f"make 1,200 tasks: {made[0]:.2f} s by the clock, {made[1]:.2f} s of processor time")
    print(f"grade one: {graded[0] / 1.2:.3f} ms by the clock, {graded[1] / 1.2:.3f} ms")
    for name in SPLITS:
        split = load_environment(name)
        scores = {**mean_scores(split), "learnt": learnt(split)}
        print(
            f"| {name} |", " | ".join(f"{player} {score:.3f}" for player, score in scores.items())
        )


if __name__ == "__main__":
    main()
