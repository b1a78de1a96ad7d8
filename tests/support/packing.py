"""Traces, tokenizers and encoded parts for tests of packing, without an executor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base.params import PromptParams
from pipeline.base.records import Trace, write_rows
from pipeline.packing.encoded import Encoded
from pipeline.packing.shards import EncodeJob, encode_part
from tests.support.settings import make_params
from tests.support.traces import make_trace


@dataclass(frozen=True)
class Lines:
    """A part of a file: some of its lines."""

    path: str
    start: int
    first_row: int
    stop_row: int


class Attended:
    """A watch that drops the rows it was told to, and notes what it was asked."""

    def __init__(self, poison: dict[int, str] | None = None) -> None:
        self.poison, self.asked, self.rows = poison or {}, list[int](), 0

    def enter(self, row: int) -> str | None:
        self.asked.append(row)
        return self.poison.get(row)

    def done(self, rows: int = 1) -> None:
        self.rows += rows


def read_lines(part: Lines) -> Iterator[bytes]:
    """The lines of a part."""
    yield from (
        Path(part.path)
        .read_bytes()
        .splitlines(keepends=True)[part.first_row - 1 : part.stop_row - 1]
    )


def parts_of(path: Path, sizes: list[int]) -> list[Lines]:
    """Parts with so many lines each."""
    lines = path.read_bytes().splitlines(keepends=True)
    parts, row = [], 0
    for size in sizes:
        start = sum(map(len, lines[:row]))
        parts.append(Lines(str(path), start, row + 1, row + size + 1))
        row += size
    return parts


def sum_trace(number: int = 1, thinking: str = "", solution: str | None = None) -> Trace:
    """A small sum; its origin is `sums.jsonl:NUMBER`."""
    problem = f"What is {number} + 1?"
    if solution is None:
        solution = f"We add 1 to {number}.\n\nThe answer is \\boxed{{{number + 1}}}."
    return make_trace(
        problem,
        str(number + 1),
        thinking=thinking,
        solution=solution,
        source="sums",
        origin=f"sums.jsonl:{number}",
        tier=("easy", "medium", "hard", "unknown")[number % 4],
    )


def make_job(
    base: Path, sequence_tokens: int = 512, prompt: PromptParams | None = None
) -> EncodeJob:
    """A job for `encode_part`."""
    prompt = prompt or make_params().prompt
    return EncodeJob(str(base), prompt, 0, sequence_tokens, read_lines)


def encode_traces(
    base: Path, folder: Path, traces: list[Trace], *sizes: int, **job: Any
) -> Encoded:
    """Traces written to `folder`/traces.jsonl and encoded in parts of these sizes."""
    path = folder / "traces.jsonl"
    write_rows(path, traces)
    folders = []
    for number, part in enumerate(parts_of(path, list(sizes) or [len(traces)])):
        folders.append(folder / f"parts{len(sizes)}/{number}")
        folders[-1].mkdir(parents=True)
        encode_part(make_job(base, **job), part, folders[-1], Attended())
    return Encoded(folders)
