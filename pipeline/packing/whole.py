"""Reads the whole packed corpus back and proves every document of it.

Run by `python -m pipeline.tokenize --prove` on every part of the traces at once, through
an executor. Reads work/tokenize/ and work/select/traces.jsonl; each part writes found.json
into its folder: the rows that have no document, and what was counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.base.artifacts import read_json, read_jsonl, write_json
from pipeline.base.curriculum import Bucket
from pipeline.base.errors import UserError
from pipeline.packing.buckets import ALL
from pipeline.packing.files import SCHEMA_VERSION, array_faults
from pipeline.packing.proof import prove_document
from pipeline.packing.shards import EncodeJob, Part, Row, Watch, open_prompts, read_batches
from pipeline.packing.stored import Stored

_PLACE = re.compile(rb', "line": (\d+), .*, "sequence": (\d+)}\n')
NOWHERE = -1
REMEDY = "Run `dvc repro -f tokenize`."


@dataclass(frozen=True)
class ProveJob:
    """What is the same for all parts."""

    encode: EncodeJob
    folder: str
    """The packed corpus."""
    index: str
    """Folder of by_line.npy and line_starts.npy."""


def buckets_of(manifest: dict[str, Any]) -> list[Bucket]:
    """The buckets of a manifest."""
    names = [one.name for one in fields(Bucket)]
    return [Bucket(**{name: row[name] for name in names}) for row in manifest["buckets"]]


def prove_layout(stored: Stored, manifest: dict[str, Any]) -> None:
    """The arrays are those of the manifest, and every bin lies in a bucket that it fits.

    Raises:
        UserError: naming the first thing that is wrong.
    """
    if manifest["schema_version"] != SCHEMA_VERSION:
        raise UserError(f"{stored.folder}: written by another version", REMEDY)
    for fault in array_faults(stored.folder, manifest["arrays"]):
        raise UserError(fault, REMEDY)
    sizes, place = stored.sizes(), 0
    for bucket in buckets_of(manifest):
        bins = slice(bucket.first, bucket.first + bucket.bins)
        found = (bucket.first, int(stored.counts[bins].sum()), int(sizes[bins].sum()))
        if found != (place, bucket.documents, bucket.tokens) or sizes[bins].max() > bucket.band:
            raise UserError(
                f"{stored.folder}: bucket {bucket.tier}, {bucket.band} is not as announced", REMEDY
            )
        place += bucket.bins
    if place != len(stored.counts):
        raise UserError(
            f"{stored.folder}: {place} of {len(stored.counts)} bins have a bucket", REMEDY
        )


def index_documents(stored: Stored, index: Path) -> int:
    """Note for every row of the traces where its document is; return how many there are.

    Raises:
        UserError: documents.jsonl does not agree with the arrays, or a row is there twice.
    """
    path = stored.folder / "documents.jsonl"
    count = len(stored.lengths)
    lines = np.empty(count, dtype=np.int64)
    starts = np.zeros(count + 1, dtype=np.int64)
    homes = np.repeat(np.arange(len(stored.counts)), stored.counts)
    number = 0
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            found = _PLACE.search(line)
            if number > count or found is None or int(found[2]) != homes[number - 1]:
                raise UserError(f"{path}:{number}: not the document that is stored there", REMEDY)
            lines[number - 1] = int(found[1])
            starts[number] = starts[number - 1] + len(line)
    rows = len(np.unique(lines[:number]))
    if (number, rows) != (count, count):
        raise UserError(f"{path}: {number} lines of {rows} rows, stored are {count}", REMEDY)
    by_line = np.full(int(lines.max()) + 1, NOWHERE, dtype=np.int32)
    by_line[lines] = np.arange(count, dtype=np.int32)
    index.mkdir(parents=True, exist_ok=True)
    np.save(index / "by_line.npy", by_line)
    np.save(index / "line_starts.npy", starts)
    return count


class _Reader:
    """Everything that is known of a document at its place in the packed corpus."""

    def __init__(self, job: ProveJob) -> None:
        self.stored = Stored(Path(job.folder))
        self._documents = np.memmap(Path(job.folder) / "documents.jsonl", mode="r", dtype=np.uint8)
        self._by_line = np.load(Path(job.index) / "by_line.npy", mmap_mode="r")
        self._starts = np.load(Path(job.index) / "line_starts.npy", mmap_mode="r")
        manifest = read_json(Path(job.folder) / "manifest.json")
        self._buckets = buckets_of(manifest)
        self._firsts = [bucket.first for bucket in self._buckets]

    def place(self, line: int) -> int:
        """The number of the document of a row; NOWHERE if it has none."""
        return int(self._by_line[line]) if line < len(self._by_line) else NOWHERE

    def note(self, place: int) -> dict[str, Any]:
        """Its line in documents.jsonl."""
        text = self._documents[self._starts[place] : self._starts[place + 1]]
        return dict(json.loads(text.tobytes()))

    def bucket(self, place: int) -> Bucket:
        home = int(np.searchsorted(self.stored.firsts, place, side="right")) - 1
        return self._buckets[int(np.searchsorted(self._firsts, home, side="right")) - 1]


def prove_part(job: ProveJob, part: Part, folder: Path, watch: Watch) -> None:
    """Prove the document of every row of a part.

    Raises:
        UserError: naming the row and what is wrong with its document.
    """
    prompts = open_prompts(job.encode.base, job.encode.prompt)
    reader = _Reader(job)
    missing: list[str] = []
    counts: Counter[str] = Counter()
    for batch in read_batches(job.encode, part):
        watch.enter(batch[0].number)
        for row in batch:
            place = reader.place(row.line)
            if place == NOWHERE:
                missing.append(row.trace.origin)
                continue
            variant = prompts.variant_of(row.trace.id, job.encode.seed)
            chat = prompts.chats[variant]
            ids, trained = reader.stored.document(place)
            prove_document(chat, row.trace, chat.prompt_ids(row.trace.problem), ids, trained)
            _prove_note(reader, row, place, variant, trained)
            counts.update(documents=1, tokens=len(ids), trained_tokens=int(trained.sum()))
        watch.done(len(batch))
    write_json(folder / "found.json", {"missing": missing, "counts": counts})


def _prove_note(
    reader: _Reader, row: Row, place: int, variant: str, trained: NDArray[np.bool_]
) -> None:
    trace, note, bucket = row.trace, reader.note(place), reader.bucket(place)
    wanted = {
        "id": trace.id,
        "source": trace.source,
        "origin": trace.origin,
        "tier": trace.tier,
        "variant": variant,
        "line": row.line,
        "length": len(trained),
        "trained": int(trained.sum()),
    }
    del note["sequence"]
    if note != wanted:
        raise UserError(f"{trace.origin}: documents.jsonl says {note}, stored is {wanted}", REMEDY)
    if bucket.tier not in (ALL, trace.tier):
        raise UserError(
            f"{trace.origin}: a document of tier {trace.tier} lies in"
            f" bucket {bucket.tier}, {bucket.band}",
            REMEDY,
        )


def prove_counts(folders: Sequence[Path], folder: Path, manifest: dict[str, Any]) -> Counter[str]:
    """Every row is stored or dropped, and the counts are those of the manifest.

    Raises:
        UserError: rows are neither, or counts differ.
    """
    found = [read_json(one / "found.json") for one in folders]
    missing = Counter(origin for one in found for origin in one["missing"])
    dropped = Counter(row["origin"] for row in read_jsonl(folder / "dropped.jsonl"))
    for origin in missing - dropped:
        raise UserError(f"{origin}: the row is neither stored nor in dropped.jsonl", REMEDY)
    counts = sum((Counter(one["counts"]) for one in found), Counter[str]())
    counts["dropped"] = missing.total()
    announced = {name: manifest[name] for name in ("documents", "tokens", "trained_tokens")}
    announced["dropped"] = sum(manifest["dropped"].values())
    if announced != {name: counts[name] for name in announced} or missing != dropped:
        raise UserError(f"{folder}: found {dict(counts)}, the manifest says {announced}", REMEDY)
    return counts
