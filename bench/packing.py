"""Packing a million documents whose lengths are drawn from real ones, beside TRL's `pack_dataset`.

    python -m bench.packing LENGTHS.npy --out FOLDER [--rows 1000000] [--sequence 4096]
                            [--peer-python PATH] [--core 0]

LENGTHS.npy holds token counts of real documents: `document_lengths.npy` of a run, or any. Rows
of these lengths (drawn with replacement, seed 0; their tokens are random) are written as the
first step of the stage would leave them. Then, on one core, one after the other, from tokens on
the disk to packed tokens on the disk:

- ours, ids alone: ids and lengths, written to plain files, as TRL's are;
- ours, the stage: all that the stage writes: ids, loss mask, lengths, documents.jsonl, each hashed
  and flushed to the disk;
- TRL (`--peer-python`, an interpreter that has `trl` and `datasets`): strategy `bfd`, ids alone.
  Once as it is called by default, a thousand rows at a time, once with all rows at a time.

The stage's buckets are laid out for a curriculum as well: three tiers, and four stages of an
eighth, a quarter, a half and the whole of the sequence. Prints Markdown (`cut off` and `dropped
whole` count tokens); figures go to bench/RESULTS.md. Needs 20 bytes of disk a token.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from bench.corpus_process import run_watched
from pipeline.base.artifacts import write_json
from pipeline.base.curriculum import Curriculum, Stage
from pipeline.packing.best_fit import best_fit_decreasing
from pipeline.packing.buckets import TIERS, Layout, lay_out
from pipeline.packing.encoded import Encoded
from pipeline.packing.files import BLOCK_TOKENS, write_packed
from pipeline.packing.shards import RECORD

PART_TOKENS = 2**24
TOKENS_PER_STEP = 262_144
PASSES = 2.5
BENCH_TIERS = TIERS[:3]
IDS, STAGE = "ours, ids alone", "ours, the stage"


def draw_lengths(known: Path, rows: int) -> np.ndarray:
    """So many lengths, int32, drawn with replacement."""
    lengths = np.load(known).astype(np.int32)
    return np.random.default_rng(0).choice(lengths, rows)


def write_parts(folder: Path, lengths: np.ndarray, sequence: int) -> list[Path]:
    """Encoded parts with random tokens; what is longer than a sequence is left out."""
    generator = np.random.default_rng(1)
    folders: list[Path] = []
    kept = lengths[lengths <= sequence]
    ends = np.searchsorted(np.cumsum(kept, dtype=np.int64) // PART_TOKENS, range(1, 10**6))
    start = 0
    while start < len(kept):
        stop = max(start + 1, int(ends[len(folders)]))
        path = folder / f"part{len(folders):03d}"
        path.mkdir(parents=True)
        _write_part(path, kept[start:stop], start, generator)
        folders.append(path)
        start = stop
    return folders


def _write_part(path: Path, sizes: np.ndarray, first: int, generator: np.random.Generator) -> None:
    generator.integers(0, 150_000, int(sizes.sum()), dtype=np.int32).tofile(path / "tokens.bin")
    lines = [
        b'{"id": "%016x", "source": "s.jsonl", "origin": "s.jsonl:%d", "tier": "easy", '
        b'"variant": "main", "line": %d, "length": %d, "trained": %d'
        % (n, n, n, size, size - size // 3)
        for n, size in enumerate(sizes.tolist(), first + 1)
    ]
    (path / "documents.jsonl").write_bytes(b"".join(lines))
    records = np.zeros(len(sizes), dtype=RECORD)
    records["length"], records["prompt"] = sizes, sizes // 3
    records["trained"] = sizes - sizes // 3
    records["kind"] = np.arange(first, first + len(sizes)) % len(BENCH_TIERS)
    records["line_stop"] = np.cumsum([len(line) for line in lines])
    np.save(path / "documents.npy", records)
    np.save(path / "untrained.npy", np.zeros((0, 3), dtype=np.int32))
    tally: dict[str, Any] = {"kinds": [["s.jsonl", tier] for tier in BENCH_TIERS]}
    tally |= {key: {} for key in ("variants", "dropped", "tool_output")} | {"dropped_tokens": 0}
    write_json(path / "tally.json", tally)


def measure_lengths(lengths: np.ndarray, sequence: int) -> dict[str, Any]:
    """Time and memory of deciding alone."""
    start = time.perf_counter()
    packing = best_fit_decreasing(lengths, sequence)
    seconds = time.perf_counter() - start
    tracemalloc.start()
    best_fit_decreasing(lengths, sequence)
    peak = tracemalloc.get_traced_memory()[1] + lengths.nbytes
    tracemalloc.stop()
    return {
        "decide_seconds": seconds,
        "bytes_per_document": peak / len(lengths),
        "bins": len(packing.counts),
    }


def measure_ours(folder: Path, sequence: int) -> dict[str, Any]:
    """Pack the parts below `folder`; run in a process of its own."""
    folders = sorted(folder.glob("part*"))
    lengths = np.concatenate([np.load(one / "documents.npy")["length"] for one in folders])
    found = measure_lengths(lengths, sequence)
    out = folder / "packed"
    out.mkdir()
    writers = {IDS: write_ids, STAGE: write_packed}
    for name, write in writers.items():
        start, worked = time.perf_counter(), time.process_time()
        encoded = Encoded(folders)
        layout = lay_out(encoded, [sequence])
        write(out, encoded, layout)
        found[name] = {
            "seconds": time.perf_counter() - start,
            "processor_seconds": time.process_time() - worked,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
    shutil.rmtree(out)
    return found | {
        "fill": layout.fill(),
        "tokens": int(lengths.sum(dtype=np.int64)),
        "plain": account(layout, [sequence]),
        "staged": measure_stages(encoded, [sequence // part for part in (8, 4, 2, 1)]),
    }


def measure_stages(encoded: Encoded, bands: list[int]) -> dict[str, Any]:
    """Fill, time and memory of deciding for a curriculum of as many stages as bands."""
    stages = [Stage(band, 1 / len(bands)) for band in bands]
    start, worked = time.perf_counter(), time.process_time()
    layout = lay_out(encoded, bands, stages)
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    if not np.array_equal(np.sort(layout.documents), np.arange(len(encoded))):
        raise SystemExit("a document is in no bin, or in two")
    tracemalloc.start()
    lay_out(encoded, bands, stages)
    peak = tracemalloc.get_traced_memory()[1] + encoded.lengths.nbytes
    tracemalloc.stop()
    return {
        "fill": layout.fill(),
        "seconds": seconds,
        "processor_seconds": worked,
        "bytes_per_document": peak / len(encoded),
        "buckets": account(layout, bands),
    }


def write_ids(out: Path, encoded: Encoded, layout: Layout) -> None:
    """Token ids and lengths, as the stage would order them."""
    lengths = encoded.lengths[layout.documents]
    lengths.tofile(out / "lengths.bin")
    layout.counts.tofile(out / "counts.bin")
    stops = np.cumsum(lengths, dtype=np.int64)
    first = 0
    with (out / "ids.bin").open("wb") as stream:
        while first < len(stops):
            done = int(stops[first] - lengths[first])
            last = int(np.searchsorted(stops, done + BLOCK_TOKENS, side="right"))
            block = layout.documents[first:last]
            order = np.argsort(block)
            places = (stops[first:last] - lengths[first:last] - done)[order]
            ids = np.empty(int(stops[last - 1]) - done, dtype=np.int32)
            encoded.copy_tokens(block[order], places, ids)
            stream.write(ids.data)
            first = last


def account(layout: Layout, bands: list[int]) -> list[str]:
    """How often every bucket is handed out in a run of some passes, one line each."""
    stages = [Stage(band, 1.0) for band in bands]
    curriculum = Curriculum(stages, layout.buckets, TOKENS_PER_STEP, seed=0)
    room = sum(bucket.bins * bucket.band for bucket in layout.buckets)
    steps = round(PASSES * room / TOKENS_PER_STEP)
    starts = [steps * number // len(stages) for number in range(len(stages))]
    taken, passes = curriculum.taken(steps, starts), curriculum.passes(steps, starts)
    return [
        f"{one.tier}, {one.band}: {one.documents:,} documents, {one.tokens:,} tokens,"
        f" {one.bins:,} bins {one.tokens / (one.bins * one.band):.2%} full;"
        f" {int(count):,} bins handed out in {steps:,} steps = {share:.3f} passes"
        for one, count, share in zip(layout.buckets, taken, passes, strict=True)
    ]


def run_step(arguments: list[str], folder: Path, core: int, name: str, python: Path) -> Any:
    """Run a step of this benchmark by itself; what it printed."""
    run = run_watched([str(python), *arguments], folder, core, folder / f"{name}.log")
    return json.loads(run.stdout.splitlines()[-1])


def table(results: dict[str, Any], sequence: int, lengths: np.ndarray) -> list[str]:
    """One line a packer; fill is that of the documents that fit whole."""
    read, long = int(lengths.sum(dtype=np.int64)), int((lengths > sequence).sum())
    lines = [
        "| packer | s | processor s | sequences | fill | cut off | dropped whole | peak GiB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, one in results.items():
        gone, ours = read - one["tokens"], name in (IDS, STAGE)
        cut, whole = (0, gone) if ours else (gone, 0)
        filled = 0 if ours else long  # by what was cut
        fill = (one["tokens"] - filled * sequence) / (one["bins"] - filled) / sequence
        lines.append(
            f"| {name} | {one['seconds']:.2f} | {one['processor_seconds']:.2f} |"
            f" {one['bins']:,} | {fill:.3%} | {cut:,} |"
            f" {whole:,} | {one['peak_bytes'] / 2**30:.2f} |"
        )
    return lines


def report(lengths: np.ndarray, results: dict[str, Any], sequence: int) -> list[str]:
    """All that is printed."""
    ours, read = results[IDS], int(lengths.sum(dtype=np.int64))
    long = lengths[lengths > sequence]
    lines = [
        f"{len(lengths):,} documents, {read:,} tokens, sequences of {sequence}; kept"
        f" {ours['tokens']:,} + dropped {int(long.sum(dtype=np.int64)):,} ({len(long):,} too long)"
        f" = {ours['tokens'] + int(long.sum(dtype=np.int64)):,} read",
        "",
        *table(results, sequence, lengths),
        "",
        f"Deciding alone: {ours['decide_seconds']:.3f} s, {ours['bytes_per_document']:.0f} bytes a"
        " document.",
    ]
    for name, one in results.items():
        wall, work = (one[key] / results[IDS][key] for key in ("seconds", "processor_seconds"))
        lines.append(f"{name}: {wall:.1f} times as long as {IDS}, {work:.1f} by processor time.")
    lines += ["", f"Passes, one stage, {ours['fill']:.3%} full:", *ours["plain"]]
    staged = ours["staged"]
    return [
        *lines,
        "",
        f"Passes, four stages, {staged['fill']:.3%} full, decided in {staged['seconds']:.2f} s"
        f" ({staged['processor_seconds']:.2f} processor s),"
        f" {staged['bytes_per_document']:.0f} bytes a document:",
        *staged["buckets"],
    ]


def main() -> None:
    """Write the rows, run both packers, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lengths", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--peer-python", type=Path)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--step", choices=["ours"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        print(json.dumps(measure_ours(given.out, given.sequence)))
        return
    lengths = draw_lengths(given.lengths, given.rows)
    folder = given.out.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    write_parts(folder, lengths, given.sequence)
    np.save(folder / "lengths.npy", lengths)
    step = ["-m", "bench.packing", str(given.lengths.resolve()), "--out", str(folder)]
    step += ["--sequence", str(given.sequence), "--step", "ours"]
    ours = run_step(step, folder, given.core, "ours", Path(sys.executable))
    results = {name: ours | ours[name] for name in (IDS, STAGE)}
    if given.peer_python:
        for name, rows in (("TRL, 1,000 rows at a time", 1000), ("TRL, all rows", given.rows)):
            arguments = ["-m", "bench.packing_peer", str(folder), str(given.sequence), str(rows)]
            results[name] = run_step(arguments, folder, given.core, f"p{rows}", given.peer_python)
    print("\n".join(report(lengths, results, given.sequence)))
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
