"""First step of tokenize, on every part of the traces at once: rows become token ids.

Called by pipeline/tokenize.py through an executor, which hands in what tells the parts
apart; reads that part of work/select/traces.jsonl. Writes into the part's folder:

tokens.bin       int32, little-endian: prompt, reply and end token of every document
documents.npy    RECORD of every document (encoded.py reads both)
untrained.npy    int32 [K, 3]: document, first and one-past-last token without loss
documents.jsonl  one line a document, but for its place in the packed corpus
dropped.jsonl    Dropped lines
tally.json       counts, the names behind `kind` and `variant`
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pipeline.base.artifacts import dump_json, write_json
from pipeline.base.params import PromptParams
from pipeline.base.prompt_variants import Prompts
from pipeline.base.records import Dropped, Trace, excerpt, from_line, to_line
from pipeline.packing.encoding import Document, encode_documents, refusal

RECORD = np.dtype(
    [
        ("length", "<i4"),
        ("prompt", "<i4"),
        ("trained", "<i4"),
        ("kind", "<i4"),
        ("line_stop", "<i8"),
        ("row_start", "<i8"),
    ]
)
"""Tokens in all, of the prompt, with loss; number of its (source, tier); one past the last
byte of its line in documents.jsonl; first byte of its row in the traces."""

BATCH_ROWS = 256
BATCH_CHARACTERS = 2**21
ALONE, TOGETHER = 1 << 40, 1 << 41
"""Added to a row's number for the watch: the row by itself, and the batch that begins with it."""
POISON = {
    "timeout": "the row was at work for longer than executor.row_seconds",
    "memory": "the row needs more memory than executor.worker_gib",
    "crash": "the row ended the process that encoded it, twice",
}


class Part(Protocol):
    """A part of a file of lines."""

    path: str
    start: int
    """Its first byte."""
    first_row: int
    """Number of its first line, from 1."""


class Watch(Protocol):
    """Who must know which row is at work."""

    def enter(self, row: int) -> str | None:
        """Work on a row begins; why it must be dropped instead, or None."""

    def done(self, rows: int = 1) -> None:
        """So many rows are done."""


@dataclass(frozen=True)
class EncodeJob:
    """What is the same for all parts."""

    base: str
    """Folder of the base."""
    prompt: PromptParams
    seed: int
    """Of the choice among prompt variants."""
    sequence_tokens: int
    """Most tokens of a document."""
    read_lines: Callable[[Any], Iterator[bytes]]
    """Yields the lines of a part, line ends included."""


@lru_cache(maxsize=1)
def _prompts(base: str, prompt: str) -> Prompts:
    return Prompts(Path(base), PromptParams.model_validate_json(prompt))


def open_prompts(base: str, prompt: PromptParams) -> Prompts:
    """The base's tokenizer and the prompt variants, read once in a process."""
    return _prompts(base, prompt.model_dump_json())


@dataclass(frozen=True, slots=True)
class Row:
    """A trace and where it stands."""

    number: int
    """Within its part, from 0."""
    line: int
    """Of the file, from 1."""
    start: int
    """First byte in the file."""
    trace: Trace


def read_batches(job: EncodeJob, part: Part) -> Iterator[list[Row]]:
    """Yield the rows of a part, some at a time: so many that encoding is fast and memory small."""
    batch: list[Row] = []
    start, characters = part.start, 0
    for number, text in enumerate(job.read_lines(part)):
        line = part.first_row + number
        batch.append(Row(number, line, start, from_line(Trace, text, f"{part.path}:{line}")))
        start += len(text)
        characters += len(text)
        if len(batch) == BATCH_ROWS or characters > BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def encode_part(job: EncodeJob, part: Part, folder: Path, watch: Watch) -> None:
    """Encode every row of a part; refused rows are dropped with their reason."""
    prompts = open_prompts(job.base, job.prompt)
    with ExitStack() as stack:
        desk = _Desk(job, prompts, folder, stack)
        for batch in read_batches(job, part):
            if watch.enter(TOGETHER + batch[0].number) is None:
                documents = encode_documents(prompts, [row.trace for row in batch], job.seed)
                for row, document in zip(batch, documents, strict=True):
                    desk.take(row, document)
            else:  # some row of it ended a process: find out which
                for row in batch:
                    desk.take_alone(row, watch.enter(ALONE + row.number))
            watch.done(len(batch))
    desk.close(folder)


class _Desk:
    """The open files of a part's folder."""

    def __init__(self, job: EncodeJob, prompts: Prompts, folder: Path, stack: ExitStack) -> None:
        self._job, self._prompts = job, prompts
        names = ("tokens.bin", "documents.jsonl", "dropped.jsonl")
        files = [stack.enter_context((folder / name).open("wb")) for name in names]
        self._tokens, self._lines, self._gone = files
        self._records: list[tuple[int, ...]] = []
        self._untrained: list[tuple[int, int, int]] = []
        self._kinds: dict[tuple[str, str], int] = {}
        self._dropped: Counter[str] = Counter()
        self._variants: Counter[str] = Counter()
        self._dropped_tokens = 0
        self._tool: Counter[str] = Counter()
        self._line_stop = 0

    def take_alone(self, row: Row, poison: str | None) -> None:
        """Encode one row by itself, or drop it."""
        if poison is not None:
            self._drop(row.trace, poison, POISON[poison])
            return
        (document,) = encode_documents(self._prompts, [row.trace], self._job.seed)
        self.take(row, document)

    def take(self, row: Row, document: Document) -> None:
        """Write a document, or why it is dropped."""
        refused = refusal(document, self._prompts.main.end_id, self._job.sequence_tokens)
        if refused is not None:
            self._drop(document.trace, *refused)
            self._dropped_tokens += len(document.ids)
            return
        ids = document.ids
        self._tokens.write(struct.pack(f"<{len(ids)}i", *ids))
        self._line_stop += self._lines.write(_line(row, document))
        kind = (document.trace.source, document.trace.tier)
        number = self._kinds.setdefault(kind, len(self._kinds))
        counts = (len(ids), len(document.prompt), document.trained_tokens)
        self._note_untrained(document)
        self._variants[document.variant] += 1
        self._records.append((*counts, number, self._line_stop, row.start))

    def _note_untrained(self, document: Document) -> None:
        before = len(document.prompt)
        for start, stop in document.untrained:
            self._untrained.append((len(self._records), before + start, before + stop))
        if document.tool_spans:
            tokens = len(document.reply) - document.trained_tokens
            self._tool.update(documents=1, spans=document.tool_spans, tokens=tokens)

    def _drop(self, trace: Trace, reason: str, detail: str) -> None:
        self._dropped[reason] += 1
        row = Dropped(trace.origin, trace.source, reason, detail, excerpt(trace.problem))
        self._gone.write(to_line(row))

    def close(self, folder: Path) -> None:
        """Write the rest."""
        np.save(folder / "documents.npy", np.array(self._records, dtype=RECORD))
        untrained: Sequence[tuple[int, int, int]] = self._untrained
        np.save(folder / "untrained.npy", np.array(untrained, dtype=np.int32).reshape(-1, 3))
        write_json(
            folder / "tally.json",
            {
                "kinds": [list(kind) for kind in self._kinds],
                "variants": self._variants,
                "dropped": self._dropped,
                "dropped_tokens": self._dropped_tokens,
                "tool_output": self._tool,
            },
        )


def _line(row: Row, document: Document) -> bytes:
    """The document's line in documents.jsonl, but for its sequence and what ends it."""
    trace = document.trace
    fields = {
        "id": trace.id,
        "source": trace.source,
        "origin": trace.origin,
        "tier": trace.tier,
        "variant": document.variant,
        "line": row.line,
        "length": len(document.prompt) + len(document.reply),
        "trained": document.trained_tokens,
    }
    return dump_json(fields)[:-1].encode()
