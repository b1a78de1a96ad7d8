"""Speed, memory and recall of the corpus stages on one core, beside two peers.

    python -m bench.corpus --rows 200000 --seed-data FOLDER --out FOLDER [--tokenizer FOLDER]
                           [--peers --peer-python PATH] [--core 0] [--parts 1]

Makes the rows (`bench.corpus_rows` says from what), runs every corpus stage on a tenth of them
and on all of them in fresh processes, then, with `--peers`, decontaminates what `filter` kept
side by side with datatrove and with a plain `datasets.map` (`bench/corpus_peers.py`), which
another interpreter may hold. Everything runs on one core, one thing at a time. Prints Markdown,
also written to OUT/report.md; figures go to bench/RESULTS.md. Needs about 6 kB of disk a row.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from bench.corpus_contest import hold_contest
from bench.corpus_ours import first_rows, make_folder, run_all, tokens_of
from bench.corpus_process import run_watched
from bench.corpus_rows import write_corpus
from bench.corpus_score import read_planted
from bench.corpus_tables import (
    Measured,
    contest_tables,
    estimate,
    memory_table,
    speed_table,
    verdict,
)
from pipeline.base.artifacts import read_json

GROWTH = 10
"""How many times more rows the large run has than the small one."""
TOKENIZER = "tokenizer/qwen3"
"""Below the folder of seeds, unless `--tokenizer` names another."""


def measure(rows: Path, count: int, given: argparse.Namespace) -> tuple[Path, Measured]:
    """Run all stages on the first rows; the run folder and its figures."""
    folder = given.out / f"run-{count}"
    shutil.rmtree(folder, ignore_errors=True)  # a finished shard would not be run again
    folder.mkdir(parents=True)
    part = first_rows(rows, count, folder / "rows.jsonl")
    make_folder(folder, part, given.tokenizer, given.out / "protected")
    steps = run_all(folder, given.core)
    for name, one in steps.items():
        print(f"{count:,} rows · {name}: {one.seconds:.1f} s", flush=True)
    clean = read_json(folder / "work/decontaminate/report.json")
    funnel = read_json(folder / "work/filter/funnel.json")
    tokens, kept = tokens_of(folder / "work/decontaminate/kept.jsonl"), clean["kept"]
    print(f"{count:,} rows · {funnel['kept']:,} kept by filter, {kept:,} clean", flush=True)
    return folder, Measured(count, part.stat().st_size, tokens, kept, steps)


def profile(folder: Path, count: int, given: argparse.Namespace) -> dict[str, float]:
    """Seconds of parts of the first pass, scaled from the small run to all rows."""
    command = [sys.executable, "-m", "bench.corpus_steps", "profile", str(folder)]
    printed = run_watched(command, folder, given.core, folder / "profile.log").stdout
    seconds: dict[str, float] = json.loads(printed)
    return {name: value * given.rows / count for name, value in seconds.items()}


def described(summary: dict[str, Any]) -> str:
    """The rows and the machine in some lines."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return (
        f"{model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end; Python "
        f"{platform.python_version()}.\nRows: {json.dumps(summary)}"
    )


def arguments() -> argparse.Namespace:
    """The command line, paths made absolute."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seed-data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--peer-python", type=Path, default=Path(sys.executable))
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    given = parser.parse_args()
    given.tokenizer = (given.tokenizer or given.seed_data / TOKENIZER).resolve()
    given.out = given.out.resolve()
    return given


def main() -> None:
    """Make the rows, measure, print."""
    given = arguments()
    start = time.monotonic()
    summary = write_corpus(given.rows, given.seed_data, given.out)
    rows = given.out / "rows.jsonl"
    small_folder, small = measure(rows, given.rows // GROWTH, given)
    large_folder, large = measure(rows, given.rows, given)
    parts = profile(small_folder, small.rows, given)
    report = [described(summary), speed_table(large, parts), memory_table(small, large)]
    if given.peers:
        planted = read_planted(given.out / "planted.jsonl")
        python = given.peer_python.absolute()
        protected = given.out / "protected"
        contest = hold_contest(large_folder, protected, planted, python, given.core, given.parts)
        report += [contest_tables(contest), "\n".join(verdict(contest, small, large))]
    report += estimate(small, large)
    report.append(f"Took {time.monotonic() - start:.0f} s: `{' '.join(sys.argv)}`")
    text = "\n\n".join(report) + "\n"
    (given.out / "report.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
