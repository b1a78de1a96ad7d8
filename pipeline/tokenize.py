"""Stage tokenize: selected traces become packed token ids with a loss mask.

Reads  work/select/traces.jsonl, work/plan/corpus.json, work/prepare/base.json and
       the base's tokenizer
Writes work/tokenize/: tokens.npy, trained.npy, document_lengths.npy,
       sequence_documents.npy, documents.jsonl, then manifest.json (docs/packing.md)
Run    dvc repro tokenize    or    python -m pipeline.tokenize
"""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.base.artifacts import read_json, write_json
from pipeline.base.chat import Chat
from pipeline.base.params import Params
from pipeline.base.progress import Progress
from pipeline.base.records import Trace, read_rows
from pipeline.base.stage import run_stage
from pipeline.packing.encoding import describe_documents, describe_tokenizer, encode_traces
from pipeline.packing.files import SCHEMA_VERSION, prove_masks, write_arrays
from pipeline.packing.best_fit import best_fit_decreasing, fill

OUT = Path("work/tokenize")


def main(params: Params) -> None:
    """Encode, pack, write, read back."""
    base = Path(read_json(Path("work/prepare/base.json"))["path"])
    limit = int(read_json(Path("work/plan/corpus.json"))["sequence_tokens"])
    chat = Chat(base, params.prompt)
    progress = Progress("tokenize", "rows", None)
    rows = read_rows(Trace, Path("work/select/traces.jsonl"))
    encoding = encode_traces(chat, rows, limit, progress)
    lengths = [len(document.ids) for document in encoding.documents]
    sequences = best_fit_decreasing(lengths, limit)
    arrays = write_arrays(OUT, encoding.documents, sequences)
    proven = prove_masks(OUT, chat, encoding.documents, sequences)
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "sequence_tokens": limit,
        "sequences": len(sequences),
        **describe_documents(encoding),
        "fill": round(fill(lengths, len(sequences), limit), 6),
        "proven_documents": proven,
        **describe_tokenizer(chat),
        "arrays": arrays,
    }
    write_json(OUT / "manifest.json", manifest)
    progress.close(
        f"{len(lengths)} documents in {len(sequences)} sequences of {limit},"
        f" {manifest['fill']:.1%} full"
    )


if __name__ == "__main__":
    # Nothing here forks after the first encoding, so its threads are safe.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    raise SystemExit(run_stage("tokenize", main))
