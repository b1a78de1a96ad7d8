"""The gym for diagnosing broken runs, as a command; not a stage.

    python -m pipeline.gym audit                         players that understand nothing, and gold
    python -m pipeline.gym tasks --split hard            tasks as JSON lines on standard output
    python -m pipeline.gym tasks --seed 5 --count 50     fresh ones
    python -m pipeline.gym grade --split test replies.jsonl

Reads nothing but the replies, lines of {"id": ..., "reply": ...}; writes to standard output.
docs/gym.md explains tasks and grades.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from pipeline.base.artifacts import user_path
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_OK, UserError
from pipeline.hardware.gym.audit import broken, mean_scores
from pipeline.hardware.gym.environment import Environment, load_environment
from pipeline.hardware.gym.tasks import SPLITS, Task


def as_line(task: Task) -> str:
    """A task as a line of JSON."""
    gold = asdict(task.gold)
    row = {"id": task.id, "prompt": task.prompt, "gold": gold, "metadata": dict(task.metadata)}
    return json.dumps(row, ensure_ascii=False)


def read_replies(path: Path) -> dict[str, str]:
    """Task id → reply.

    Raises:
        UserError: the file or one of its lines cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})", "Name a JSON Lines file.") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            name, reply = row["id"], row["reply"]
        except (ValueError, KeyError, TypeError):
            name = reply = None
        if not isinstance(name, str) or not isinstance(reply, str) or name in found:
            raise UserError(
                f"{path}, line {number}: no reply to a task, or its second",
                'Write {"id": "...", "reply": "..."}, one line a task.',
            )
        found[name] = reply
    return found


def grade_file(environment: Environment, path: Path) -> str:
    """Mean of each part of the grades; a task without a reply scores nothing.

    Raises:
        UserError: a reply belongs to no task.
    """
    replies = read_replies(path)
    if unknown := set(replies) - {task.id for task in environment.tasks}:
        raise UserError(f"{path}: no task {min(unknown)!r}", "Name the split that was answered.")
    prompts = [task.prompt for task in environment.tasks]
    grades = environment.evaluate(prompts, [replies.get(t.id, "") for t in environment.tasks])
    rows = [asdict(grade) for grade in grades]
    means = {name: round(fmean(row[name] for row in rows), 6) for name in rows[0]}
    return json.dumps({"tasks": len(grades), "replies": len(replies), **means})


def audit() -> int:
    """Print the mean score of each player on each split; 1 if a limit is broken."""
    faults = []
    for name in SPLITS:
        scores = mean_scores(load_environment(name))
        print(f"{name:<6}", *(f"{player} {score:.3f}" for player, score in scores.items()))
        faults += [f"{player} on {name}" for player in broken(scores)]
    if faults:
        print(f"gym: limits broken: {', '.join(faults)}", file=sys.stderr)
    return EXIT_FAILED if faults else EXIT_OK


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.gym", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", choices=("audit", "tasks", "grade"))
    parser.add_argument("replies", nargs="?", metavar="PATH", help="grade: the replies")
    parser.add_argument("--split", default="train", help=", ".join(SPLITS))
    parser.add_argument("--seed", type=int, metavar="N", help="fresh tasks instead of a split")
    parser.add_argument("--count", type=int, default=200, metavar="N", help="of fresh tasks")
    parser.add_argument("--hard", action="store_true", help="fresh tasks of the hard kind")
    return parser.parse_args(arguments)


def run(chosen: argparse.Namespace) -> int:
    """Do what was asked; return the exit code.

    Raises:
        UserError: bad input.
    """
    if chosen.what == "audit":
        return audit()
    environment = load_environment(
        chosen.split, seed=chosen.seed, count=chosen.count, hard=chosen.hard
    )
    if chosen.what == "grade":
        if chosen.replies is None:
            raise UserError("gym: no replies to grade", "Name a file after `grade`.")
        print(grade_file(environment, user_path(chosen.replies)))
        return EXIT_OK
    for task in environment.tasks:
        print(as_line(task))
    return EXIT_OK


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    try:
        return run(parse(arguments))
    except UserError as error:
        print(f"gym: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT


if __name__ == "__main__":
    raise SystemExit(main())
