"""Parts of the corpus stages by themselves, in one process: where the time goes.

    python -m bench.corpus_steps profile|decide FOLDER      (run by bench.corpus)

`profile` times what the first pass of `filter` does on FOLDER/rows.jsonl; `decide` times the
decisions of `decontaminate` alone, on the problems of FOLDER/work/filter/kept.jsonl in memory.
Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.corpus_peers import timed
from pipeline.base.artifacts import read_json
from pipeline.base.params import load_params
from pipeline.base.records import problem_id, read_lines
from pipeline.corpus.copies.near_copies import Signer
from pipeline.corpus.overlap.boilerplate import Boilerplate, Excuses
from pipeline.corpus.overlap.judgement import Judge
from pipeline.corpus.overlap.protected import load_sets
from pipeline.corpus.overlap.protected_index import build_index
from pipeline.corpus.overlap.screen import BATCH_LINES, Screen, problems_of
from pipeline.corpus.readers.cuts import plan_shards
from pipeline.corpus.readers.sources import read_shard

SHARD_BYTES = 64 * 2**20


def profile(folder: Path) -> dict[str, float]:
    """Seconds of reading and parsing, and of signing the problems."""
    similarity = load_params(folder / "params.yaml").filter.near_copy_similarity
    shards = plan_shards([(folder / "rows.jsonl", "rows.jsonl", 0)], SHARD_BYTES)
    start = time.perf_counter()
    for shard in shards:
        for _ in read_shard(shard):
            pass
    read = time.perf_counter() - start
    rows = [row.value or {} for shard in shards for row in read_shard(shard)]
    problems = [row["problem"] for row in rows]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        signer = Signer(Path(scratch), similarity)
        for problem in problems:
            signer.place_of(problem_id(problem), problem)
        signer.close()
    return {"read, parse": read, "near-copy signatures": time.perf_counter() - start}


def decide(folder: Path) -> dict[str, list[float]]:
    """Seconds of screening, comparing and judging problems that are in memory, in parts."""
    settings = load_params(folder / "params.yaml").decontaminate
    os.chdir(folder)
    sets = load_sets(read_json(Path("work/prepare/protected.json")))
    items = [problem for one in sets for problem in one.problems]
    problems = problems_of(list(read_lines(folder / "work/filter/kept.jsonl")))
    index = build_index(items, settings.ngram_words)
    screen, judge = Screen(index), Judge(index, settings.paraphrase_cosine)

    def decide_all(part: list[str]) -> None:
        counts = Boilerplate(index, settings.boilerplate_share, len(part))
        found = []
        for first in range(0, len(part), BATCH_LINES):
            batch = part[first : first + BATCH_LINES]
            for suspect in screen.hopeful(batch):
                pairs = judge.pairs(batch[suspect.row], suspect.items)
                counts.note(pairs)
                found.append(pairs)
        excuses = Excuses.of(counts)
        for pairs in found:
            for pair in pairs:
                excuses.verdict(pair)

    return {"decide_seconds": timed(decide_all, problems)}


def main() -> None:
    """Run one of the two and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["profile", "decide"])
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    work: dict[str, Callable[[Path], dict[str, Any]]] = {"profile": profile, "decide": decide}
    print(json.dumps(work[given.what](given.folder.absolute())))


if __name__ == "__main__":
    main()
