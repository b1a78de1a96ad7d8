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

Then the whole stage with one and with two worker processes, by parts (bench/tokenizing_stage.py):
as many copies of the file for each worker, each worker held to a core of its own. Workers have
RAYON_NUM_THREADS=1 and TOKENIZERS_PARALLELISM=false; `threads` shows what the tokenizer's own
threads would give instead. Prints Markdown; best of all rounds, by the clock and by processor time.
On a machine that others use, only the latter says something. Scaling by
processor time takes each process to have a core for itself: what one process does alone is added to
the workers' time divided by their number. Figures go to bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.corpus_process import ONE_CORE, ROOT
from bench.tokenizing_stage import make_project, parts_table, run_parts, worked_seconds
from pipeline.base.params import Params, load_params
from pipeline.base.prompt_variants import Prompts
from pipeline.base.records import Trace, read_rows
from pipeline.corpus.execution.executor import inline_watch
from pipeline.corpus.execution.shards import line_shards, read_shard_lines
from pipeline.packing.shards import (
    BATCH_ROWS,
    RECORD,
    EncodeJob,
    encode_part,
    open_prompts,
)

SEQUENCE = 32_768
ONE, TWO = "one worker", "two workers"
STEPS = {"plain": 1, "fast": 1, "ours": 1, "threads": 2, ONE: 1, TWO: 2}
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
    tokens, start, before = 0, time.perf_counter(), time.process_time()
    for first in range(0, len(texts), BATCH_ROWS):
        for one in call(texts[first : first + BATCH_ROWS], add_special_tokens=False):
            tokens += len(one.ids)
    worked = time.process_time() - before
    return {"tokens": tokens, "seconds": time.perf_counter() - start, "worked": worked}


def ours(given: argparse.Namespace) -> dict[str, float]:
    """The first step of the stage on the whole file as one part."""
    job = describe_job(given)
    open_prompts(job.base, job.prompt)
    (part,) = line_shards(given.traces, 2**40)
    folder = fresh(given.out / "part")
    start, before = time.perf_counter(), time.process_time()
    encode_part(job, part, folder, inline_watch())
    seconds, worked = time.perf_counter() - start, time.process_time() - before
    return {"tokens": tokens_of([folder]), "seconds": seconds, "worked": worked}


def workers(given: argparse.Namespace, count: int) -> dict[str, Any]:
    """The stage with so many workers, on several copies of the file for each."""
    folder = fresh(given.out / "project")
    make_project(folder, given.traces, given.base, given.copies * count)
    os.chdir(folder)
    start = time.perf_counter()
    found: dict[str, Any] = run_parts(shipped(), count)
    seconds = time.perf_counter() - start
    os.chdir(given.out)
    shutil.rmtree(folder)
    alone, worked = worked_seconds(found, count), worked_seconds(found)
    return found | {"seconds": seconds, "alone": alone, "worked": worked}


def fresh(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def tokens_of(folders: list[Path]) -> int:
    """Tokens in encoded parts."""
    parts = (np.load(one / "documents.npy").view(RECORD)["length"] for one in folders)
    return sum(int(part.sum(dtype=np.int64)) for part in parts)


def run_step(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """What a step found in a process of its own, and the tokens a second."""
    threads = {"RAYON_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "true"}
    environment = os.environ | ONE_CORE | (threads if name == "threads" else {})
    allowed = sorted(os.sched_getaffinity(0))
    cores = ",".join(str(core) for core in allowed[: STEPS[name]])
    command = ["taskset", "-c", cores, sys.executable, "-m", "bench.tokenizing", "--step", name]
    command += [str(given.traces), str(given.base), "--out", str(given.out)]
    command += ["--copies", str(given.copies)]
    done = subprocess.run(
        command, env=environment | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    tokens = found["tokens"]
    return found | {"rate": tokens / found["seconds"], "work_rate": tokens / found["worked"]}


def do_step(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """A step, in this process."""
    steps: dict[str, Callable[[], dict[str, Any]]] = {
        "plain": lambda: plain(given, "encode_batch"),
        "fast": lambda: plain(given, "encode_batch_fast"),
        "threads": lambda: plain(given, "encode_batch"),
        "ours": lambda: ours(given),
        ONE: lambda: workers(given, 1),
        TWO: lambda: workers(given, 2),
    }
    return steps[name]()


def report(rounds: list[dict[str, dict[str, Any]]]) -> list[str]:
    """All that is printed, of the best figures of all rounds."""
    rate = {name: max(one[name]["rate"] for one in rounds) for name in STEPS}
    work = {name: max(one[name]["work_rate"] for one in rounds) for name in STEPS}
    lines = [
        "| step | cores | tokens/s | to plain | tokens/processor s | to plain |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, cores in STEPS.items():
        lines.append(
            f"| {name} | {cores} | {rate[name]:,.0f} | {rate[name] / rate['plain']:.2f} |"
            f" {work[name]:,.0f} | {work[name] / work['plain']:.2f} |"
        )
    alone = {
        name: max(one[name]["tokens"] / one[name]["alone"] for one in rounds) for name in (ONE, TWO)
    }
    last = rounds[-1]
    for count, name in enumerate((ONE, TWO), 1):
        lines += ["", *parts_table(last[name], count)]
    return [
        *lines,
        "",
        f"Two workers to one: {rate[TWO] / rate[ONE]:.2f} by the clock,"
        f" {alone[TWO] / alone[ONE]:.2f} by processor time.",
        f"load {os.getloadavg()[0]:.1f} at the end, {len(os.sched_getaffinity(0))} cores",
    ]


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
    rounds: list[dict[str, dict[str, Any]]] = []
    for number in range(given.rounds):
        rounds.append({})
        for name in STEPS:
            rounds[-1][name] = run_step(name, given)
            print(
                f"round {number + 1}: {name}: {rounds[-1][name]['rate']:,.0f} tokens/s",
                file=sys.stderr,
            )
    print("\n".join(report(rounds)))


if __name__ == "__main__":
    main()
