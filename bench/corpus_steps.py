"""Parts of the corpus stages by themselves, in one process: where the time goes.

    python -m bench.corpus_steps profile|decide FOLDER      (run by bench.corpus)

`profile` times what the first pass of `filter` does on FOLDER/rows.jsonl; `decide` times the
decisions of `decontaminate` alone, on the problems of FOLDER/work/filter/kept.jsonl in memory.
Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.base.params import load_params
from pipeline.base.records import problem_id
from pipeline.corpus.execution.shards import plan_shards
from pipeline.corpus.near_copies import Signer
from pipeline.corpus.sources import read_shard

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
    problems = [row.value["problem"] for shard in shards for row in read_shard(shard)]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        signer = Signer(Path(scratch), similarity)
        for problem in problems:
            signer.place_of(problem_id(problem), problem)
        signer.close()
    return {"read, parse": read, "near-copy signatures": time.perf_counter() - start}
