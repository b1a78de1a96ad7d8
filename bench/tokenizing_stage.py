"""The tokenize stage by parts, with one worker process or several, each held to one core.

Called by `bench.tokenizing` in a process of its own. Makes a project in a folder, does what
`pipeline.tokenize` does, and takes the time of every part: by the clock, by the processor time of
this process, which serves all workers, and by that of the workers. What the former takes is what a
further core cannot shorten. Workers write their own files; nothing but names comes back.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from pipeline.base.artifacts import write_json
from pipeline.base.params import Params
from pipeline.base.progress import Progress
from pipeline.base.prompt_variants import Prompts
from pipeline.corpus.execution.executor import Watch, run_shards
from pipeline.corpus.execution.scratch import merge_files
from pipeline.corpus.execution.shards import Shard, line_shards
from pipeline.packing.buckets import lay_out
from pipeline.packing.encoded import Encoded
from pipeline.packing.files import write_packed
from pipeline.packing.sample import prove_sample
from pipeline.packing.shards import EncodeJob, encode_part
from pipeline.packing.stored import Stored
from pipeline.tokenize import OUT, TRACES, describe, describe_job, traces_hash

PARTS = 16
"""For each worker, so that all end at about the same time."""
SEQUENCE = 8192
CORPUS = {"sequence_tokens": SEQUENCE, "bands": [SEQUENCE], "stages": []}
WORKED = "worked.json"
CONSTANT = ("tokenizer opened", "64 bins proven")
"""Parts that take the same for any number of rows."""


@lru_cache(maxsize=1)
def take_core(folder: Path) -> IO[str]:
    """Hold this process to a core of its own for as long as it lives.

    Args:
        folder: of a lock for each core.
    """
    for core in sorted(os.sched_getaffinity(0)):
        lock = (folder / f"core{core}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        os.sched_setaffinity(0, {core})
        return lock
    raise SystemExit("more workers than cores")


def encode_pinned(job: EncodeJob, part: Shard, folder: Path, watch: Watch) -> None:
    """`encode_part` on a core of its own; notes what it took, the tokenizer's start included."""
    take_core(Path("locks").absolute())
    before, start = time.process_time(), time.perf_counter()
    encode_part(job, part, folder, watch)
    took = [time.perf_counter() - start, time.process_time() - before]
    (folder / WORKED).write_text(json.dumps(took))


class Clock:
    """Adds up parts of the work of this process."""

    def __init__(self) -> None:
        self.parts: dict[str, tuple[float, float]] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Take the time of what is inside."""
        start, before = time.perf_counter(), time.process_time()
        yield
        self.parts[name] = (time.perf_counter() - start, time.process_time() - before)


def make_project(folder: Path, traces: Path, base: Path, copies: int) -> None:
    """The files that the stage reads."""
    (folder / TRACES.parent).mkdir(parents=True)
    (folder / "locks").mkdir()
    (folder / TRACES).write_bytes(traces.read_bytes() * copies)
    write_json(folder / "work/prepare/base.json", {"path": str(base)})


def run_parts(params: Params, count: int, encode: Callable[..., None] = encode_pinned) -> Any:
    """Do the work of the stage in this folder; seconds of every part, of this process and workers.

    Returns:
        tokens, `parts` (name → wall seconds, processor seconds of this process) and `workers`
        (wall and processor seconds, summed over their parts).
    """
    clock = Clock()
    with clock.part("traces hashed and cut"):
        traces_hash()
        parts = line_shards(TRACES, max(1, TRACES.stat().st_size // (PARTS * count)))
    with clock.part("tokenizer opened"):
        job = describe_job(params, CORPUS)
        prompts = Prompts(Path(job.base), job.prompt)
        prompts.main.tokenizer_sha256()
    settings = params.executor.model_copy(update={"workers": count})
    progress = Progress("encode", "rows", None)
    with clock.part("workers served"):
        folders = run_shards("encode", encode, job, parts, Path("scratch"), settings, progress)
    with clock.part("counts read, bins laid out"):
        encoded = Encoded(folders)
        encoded.require_enough(job.sequence_tokens)
        layout = lay_out(encoded, [SEQUENCE])
    with clock.part("arrays and lines written and hashed"):
        write_packed(OUT, encoded, layout)
        merge_files(folders, "dropped.jsonl", OUT / "dropped.jsonl")
    with clock.part("64 bins proven"):
        prove_sample(Stored(OUT), prompts, job.seed, encoded, layout, TRACES)
    write_json(OUT / "manifest.json", describe(encoded, layout, CORPUS))
    took = [json.loads((one / WORKED).read_text()) for one in folders]
    return {
        "tokens": int(encoded.lengths.sum(dtype="int64")) + encoded.dropped_tokens,
        "parts": clock.parts,
        "workers": [sum(one[0] for one in took), sum(one[1] for one in took)],
    }


def worked_seconds(found: Any, count: int = 1) -> float:
    """Processor time of this process, and that of the workers divided by their number."""
    own = sum(worked for _, worked in found["parts"].values())
    return float(own + found["workers"][1] / count)


def parts_table(found: Any, count: int) -> list[str]:
    """One line a part: the share of all processor time that this process takes in it."""
    clock, worked = found["workers"]
    whole = worked + sum(seconds for _, seconds in found["parts"].values())
    lines = [
        f"Parts of the stage with {count} workers, {found['tokens']:,} tokens:",
        "",
        "| part | wall s | processor s | share |",
        "|---|---:|---:|---:|",
        f"| workers encode | {clock:.2f} | {worked:.2f} | {worked / whole:.2%} |",
    ]
    for name, (wall, seconds) in found["parts"].items():
        lines.append(f"| {name} | {wall:.2f} | {seconds:.2f} | {seconds / whole:.2%} |")
    growing = sum(s for name, (_, s) in found["parts"].items() if name not in CONSTANT)
    return [
        *lines,
        "",
        f"One process alone does {1 - worked / whole:.2%} of this work; of work that grows with the"
        f" rows {growing / (growing + worked):.2%}.",
    ]
