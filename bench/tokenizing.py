"""Tokens a second of the tokenize stage, beside a plain loop over `encode_batch`.

    python -m bench.tokenizing TRACES.jsonl BASE --out FOLDER [--rounds 3] [--copies 2]

TRACES.jsonl is work/select/traces.jsonl of a run, BASE a folder with a tokenizer. On one core,
in turns, each in a fresh process that has opened the tokenizer before the clock starts:

- plain: prompts and replies are in memory as texts; `tokenizer.encode_batch` takes 256 of them at
  a time, and their `ids` are read. The ceiling of any program that calls it.
- fast:  the same with `encode_batch_fast`, which leaves offsets out.
- ours:  the stage's first step, from the file of traces to the encoded part on the disk: rows are
  parsed and checked, templates rendered, prompts and replies encoded, masks and counts written.
- threads: plain once more on two cores, with the tokenizer's own threads.

Then the stage's first step through its executor with one and with two worker processes, each on
so many cores. Workers have RAYON_NUM_THREADS=1 and TOKENIZERS_PARALLELISM=false; `threads` shows
what the tokenizer's own threads would give instead. Prints Markdown; best of all rounds, by the
clock and by processor time, start-up included (on a machine that others use, the latter says more);
figures go to bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.corpus_process import ONE_CORE, ROOT
from pipeline.base.params import Params, load_params
from pipeline.base.progress import Progress
from pipeline.base.prompt_variants import Prompts
from pipeline.base.records import Trace, read_rows
from pipeline.corpus.execution.executor import inline_watch, run_shards
from pipeline.corpus.execution.shards import line_shards, read_shard_lines
from pipeline.packing.shards import (
    BATCH_ROWS,
    RECORD,
    EncodeJob,
    encode_part,
    open_prompts,
)

SEQUENCE = 32_768
PARTS = 16
"""For each worker, so that all end at about the same time."""
STEPS = {"plain": 1, "fast": 1, "ours": 1, "threads": 2, "one worker": 1, "two workers": 2}
"""Step → cores."""


def describe_job(given: argparse.Namespace) -> EncodeJob:
    """What the parts are encoded with: the prompt of params.yaml."""
    params = shipped()
    return EncodeJob(str(given.base), params.prompt, 0, SEQUENCE, read_shard_lines)


def shipped() -> Params:
    """The settings as they are shipped."""
    return load_params(ROOT / "presets/demo.yaml")


def plain(given: argparse.Namespace, encode: str) -> dict[str, float]:
    """The loop: texts in memory, ids read."""
    chat = Prompts(given.base, shipped().prompt).main
    texts: list[str] = []
    for trace in read_rows(Trace, given.traces):
        texts.append(chat.prompt_text(trace.problem))
        texts.append(chat.reply_text(trace.thinking, trace.solution))
    call: Callable[..., Any] = getattr(chat.tokenizer, encode)
    tokens, start = 0, time.perf_counter()
    for first in range(0, len(texts), BATCH_ROWS):
        for one in call(texts[first : first + BATCH_ROWS], add_special_tokens=False):
            tokens += len(one.ids)
    return {"tokens": tokens, "seconds": time.perf_counter() - start}


def ours(given: argparse.Namespace) -> dict[str, float]:
    """The first step of the stage on the whole file as one part."""
    job = describe_job(given)
    open_prompts(job.base, job.prompt)
    (part,) = line_shards(given.traces, 2**40)
    folder = fresh(given.out / "part")
    start = time.perf_counter()
    encode_part(job, part, folder, inline_watch())
    seconds = time.perf_counter() - start
    return {"tokens": tokens_of([folder]), "seconds": seconds}


def workers(given: argparse.Namespace, count: int) -> dict[str, float]:
    """The first step through the executor, on several copies of the file."""
    whole = given.out / f"copies{count}.jsonl"
    whole.write_bytes(given.traces.read_bytes() * given.copies * count)
    parts = line_shards(whole, max(1, whole.stat().st_size // (PARTS * count)))
    settings = shipped().executor.model_copy(update={"workers": count})
    scratch = fresh(given.out / "scratch")
    progress = Progress("encode", "rows", None)
    start = time.perf_counter()
    folders = run_shards(
        "encode", encode_part, describe_job(given), parts, scratch, settings, progress
    )
    seconds = time.perf_counter() - start
    whole.unlink()
    return {"tokens": tokens_of(folders), "seconds": seconds}


def fresh(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def tokens_of(folders: list[Path]) -> int:
    """Tokens in encoded parts."""
    parts = (np.load(one / "documents.npy").view(RECORD)["length"] for one in folders)
    return sum(int(part.sum(dtype=np.int64)) for part in parts)


def run_step(name: str, given: argparse.Namespace) -> tuple[float, float]:
    """Tokens a second, and a second of processor time, of a step in a process of its own."""
    threads = {"RAYON_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "true"}
    environment = os.environ | ONE_CORE | (threads if name == "threads" else {})
    cores = ",".join(str(core) for core in range(STEPS[name]))
    command = ["taskset", "-c", cores, sys.executable, "-m", "bench.tokenizing", "--step", name]
    command += [str(given.traces), str(given.base), "--out", str(given.out)]
    command += ["--copies", str(given.copies)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, env=environment | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    found = json.loads(done.stdout)
    return found["tokens"] / found["seconds"], found["tokens"] / worked


def do_step(name: str, given: argparse.Namespace) -> dict[str, float]:
    """A step, in this process."""
    steps: dict[str, Callable[[], dict[str, float]]] = {
        "plain": lambda: plain(given, "encode_batch"),
        "fast": lambda: plain(given, "encode_batch_fast"),
        "threads": lambda: plain(given, "encode_batch"),
        "ours": lambda: ours(given),
        "one worker": lambda: workers(given, 1),
        "two workers": lambda: workers(given, 2),
    }
    return steps[name]()


def main() -> None:
    """Run all steps in turns, print the best of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=2)
    parser.add_argument("--step", choices=list(STEPS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.traces, given.base = given.traces.resolve(), given.base.resolve()
    given.out = given.out.resolve()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.step:
        print(json.dumps(do_step(given.step, given)))
        return
    best: dict[str, tuple[float, float]] = {}
    for number in range(given.rounds):
        for name in STEPS:
            rates, known = run_step(name, given), best.get(name, (0.0, 0.0))
            best[name] = max(known[0], rates[0]), max(known[1], rates[1])
            print(f"round {number + 1}: {name}: {rates[0]:,.0f} tokens/s", file=sys.stderr)
    print("| step | cores | tokens/s | to plain | tokens/processor s |\n|---|---:|---:|---:|---:|")
    for name, (rate, work) in best.items():
        ratio = rate / best["plain"][0]
        print(f"| {name} | {STEPS[name]} | {rate:,.0f} | {ratio:.2f} | {work:,.0f} |")
    one, two = best["one worker"], best["two workers"]
    print(
        f"\ntwo workers to one: {two[0] / one[0]:.2f}; by processor time {2 * two[1] / one[1]:.2f}"
    )
    print(f"load {os.getloadavg()[0]:.1f} at the end, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
