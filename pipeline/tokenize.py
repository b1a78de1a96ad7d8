"""Stage tokenize: selected traces become packed token ids with a loss mask.

Every part of the traces is encoded by itself (packing/shards.py), bins are laid out over
the lengths alone (packing/buckets.py), and the documents are copied into their places.
Encoded parts are kept in runs/corpus until the stage ends, so that a restart goes on
where it stopped.

Reads  work/select/traces.jsonl, work/plan/corpus.json, work/prepare/base.json and
       the base's tokenizer
Writes work/tokenize/: tokens.npy, trained.npy, document_lengths.npy,
       sequence_documents.npy, documents.jsonl, dropped.jsonl, then manifest.json
       (docs/packing.md)
Run    dvc repro tokenize    or    python -m pipeline.tokenize
       python -m pipeline.tokenize --prove    reads all of it back and writes nothing
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import Json, read_json, sha256_file, write_json
from pipeline.base.curriculum import Stage
from pipeline.base.end_tokens import declared_end_ids
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_OK, UserError
from pipeline.base.lock import hold
from pipeline.base.params import Params, load_params
from pipeline.base.progress import Progress
from pipeline.base.prompt_variants import Prompts
from pipeline.base.stage import STAGE_LOCK, run_stage
from pipeline.corpus.execution.executor import run_shards
from pipeline.corpus.execution.scratch import forget_scratch, merge_files, scratch_folder
from pipeline.corpus.execution.shards import Shard, line_shards, read_shard_lines
from pipeline.packing.buckets import Layout, lay_out
from pipeline.packing.encoded import Encoded
from pipeline.packing.files import SCHEMA_VERSION, write_packed
from pipeline.packing.sample import prove_sample
from pipeline.packing.shards import EncodeJob, encode_part
from pipeline.packing.stored import Stored
from pipeline.packing.whole import (
    ProveJob,
    index_documents,
    prove_counts,
    prove_layout,
    prove_part,
)

BASE = Path("work/prepare/base.json")
CORPUS = Path("work/plan/corpus.json")
TRACES = Path("work/select/traces.jsonl")
OUT = Path("work/tokenize")
CODE = Path(__file__).parent / "packing"

PARTS = 32
"""A small file is cut into so many parts at most, of a MiB or more, for all cores to help."""
SMALLEST_PART = 2**20


def plan_parts(shard_mib: float) -> list[Shard]:
    """Parts of the traces, by the size of the file alone."""
    whole = TRACES.stat().st_size if TRACES.is_file() else 0
    part = min(shard_mib * 2**20, max(SMALLEST_PART, whole / PARTS))
    return line_shards(TRACES, max(1, int(part)))


def describe_job(params: Params, corpus: Json) -> EncodeJob:
    """What the parts are encoded with."""
    base = str(read_json(BASE)["path"])
    return EncodeJob(
        base, params.prompt, params.select.seed, int(corpus["bands"][-1]), read_shard_lines
    )


def traces_hash() -> str:
    """SHA-256 of the traces.

    Raises:
        UserError: the file is missing.
    """
    if not TRACES.is_file():
        raise UserError(f"{TRACES}: file not found", "Run the stage that makes it: `dvc repro`.")
    return sha256_file(TRACES)


def open_scratch(params: Params, job: EncodeJob, tokenizer: str, traces: str) -> Path:
    """The folder of encoded parts; its name covers all that decides them.

    Args:
        tokenizer: hash of the tokenizer's files.
        traces: hash of the traces.
    """
    code = {path.name: sha256_file(path) for path in sorted(CODE.glob("*.py"))}
    prompt = job.prompt.model_dump(mode="json")
    limits = [job.seed, job.sequence_tokens, params.executor.shard_mib]
    return scratch_folder("tokenize", [code, tokenizer, prompt, traces, limits])


def encode(params: Params, job: EncodeJob, scratch: Path, progress: Progress) -> list[Path]:
    """Encode all parts; return their folders."""
    parts = plan_parts(params.executor.shard_mib)
    sizes = [part.bytes for part in parts]
    return run_shards("encode", encode_part, job, parts, scratch, params.executor, progress, sizes)


def describe(encoded: Encoded, layout: Layout, corpus: Json) -> dict[str, Any]:
    """The manifest's counts of documents, tokens and bins, kept and dropped."""
    return {
        "sequence_tokens": int(corpus["sequence_tokens"]),
        "bands": corpus["bands"],
        "sequences": len(layout.counts),
        "documents": len(encoded),
        "tokens": sum(bucket.tokens for bucket in layout.buckets),
        "trained_tokens": sum(layout.trained),
        "dropped": encoded.dropped,
        "dropped_tokens": encoded.dropped_tokens,
        "fill": round(layout.fill(), 6),
        "buckets": layout.described(),
        "sources": encoded.per_source(),
        "variants": encoded.variants,
        "tool_output": {key: encoded.tool_output.get(key, 0) for key in TOOL_COUNTS},
    }


TOOL_COUNTS = ("documents", "spans", "tokens")


def describe_tokenizer(prompts: Prompts) -> dict[str, Any]:
    """The manifest's facts of the tokenizer; its hash covers the chat template too."""
    chat = prompts.main
    return {
        "tokenizer_sha256": chat.tokenizer_sha256(),
        "end_id": chat.end_id,
        "end_text": chat.end_text,
        "base_end_ids": declared_end_ids(chat.base),
        "pad_id": chat.pad_id,
        "generation": chat.generation_settings(),
    }


def main(params: Params) -> None:
    """Encode, lay out, write, read back."""
    corpus, traces = read_json(CORPUS), traces_hash()
    job = describe_job(params, corpus)
    prompts = Prompts(Path(job.base), job.prompt)
    warning = prompts.main.end_warning()
    if warning is not None:
        print(f"tokenize: warning: {warning}", file=sys.stderr, flush=True)
    scratch = open_scratch(params, job, prompts.main.tokenizer_sha256(), traces)
    progress = Progress("tokenize", "rows", None)
    folders = encode(params, job, scratch, progress)
    encoded = Encoded(folders)
    encoded.require_enough(job.sequence_tokens)
    layout = lay_out(encoded, corpus["bands"], [Stage(**one) for one in corpus["stages"]])
    arrays = write_packed(OUT, encoded, layout)
    merge_files(folders, "dropped.jsonl", OUT / "dropped.jsonl")
    proven = prove_sample(Stored(OUT), prompts, job.seed, encoded, layout, TRACES)
    manifest = {
        "schema_version": SCHEMA_VERSION,
        **describe(encoded, layout, corpus),
        "proven_documents": proven,
        "traces_sha256": traces,
        **describe_tokenizer(prompts),
        "arrays": arrays,
    }
    write_json(OUT / "manifest.json", manifest)
    forget_scratch(scratch)
    progress.close(
        f"{len(encoded):,} documents in {len(layout.counts):,} sequences,"
        f" {manifest['fill']:.2%} full, {sum(encoded.dropped.values()):,} rows dropped"
    )


def prove(params: Params) -> str:
    """Read the finished folder back, document by document; a sentence on what was found.

    Raises:
        UserError: naming the first thing that is wrong.
    """
    corpus, traces = read_json(CORPUS), traces_hash()
    job = describe_job(params, corpus)
    manifest, stored = read_json(OUT / "manifest.json"), Stored(OUT)
    tokenizer = Prompts(Path(job.base), job.prompt).main.tokenizer_sha256()
    if (manifest["tokenizer_sha256"], manifest["traces_sha256"]) != (tokenizer, traces):
        raise UserError(
            f"{OUT}: made from other traces or with another tokenizer than are there now",
            "Run `dvc repro tokenize`.",
        )
    prove_layout(stored, manifest)
    scratch = scratch_folder("prove", [manifest, params.executor.shard_mib])
    index_documents(stored, scratch / "index")
    work = ProveJob(job, str(OUT), str(scratch / "index"))
    parts = plan_parts(params.executor.shard_mib)
    progress = Progress("prove", "rows", None)
    sizes = [part.bytes for part in parts]
    folders = run_shards(
        "prove", prove_part, work, parts, scratch, params.executor, progress, sizes
    )
    counts = prove_counts(folders, OUT, manifest)
    forget_scratch(scratch)
    return (
        f"{counts['documents']:,} documents with {counts['trained_tokens']:,} trained tokens in"
        f" {len(stored.counts):,} sequences are as they should be;"
        f" {counts['dropped']:,} rows were dropped"
    )


def command(arguments: Sequence[str] | None = None) -> int:
    """Run the stage, or with `--prove` read its work back; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.tokenize")
    parser.add_argument("--prove", action="store_true", help="read all of work/tokenize back")
    if not parser.parse_args(arguments).prove:
        return run_stage("tokenize", main)
    try:
        with hold(STAGE_LOCK, "a stage"):
            print(f"tokenize: {prove(load_params(Path('params.yaml')))}", flush=True)
    except UserError as error:
        print(f"tokenize: {error}", file=sys.stderr, flush=True)
        return EXIT_BAD_INPUT
    return EXIT_OK


if __name__ == "__main__":
    raise SystemExit(command())
