"""The three steps of the filter stage on small files, in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.base.params import Params
from pipeline.base.params_corpus import SourceParams
from pipeline.base.records import Dropped, Problem, Trace, problem_id, read_rows
from pipeline.corpus.copies.decisions import HoldoutWish
from pipeline.corpus.copies.index import JudgedShards, Reduction, reduce_entries
from pipeline.corpus.execution.executor import inline_watch
from pipeline.corpus.execution.shards import Shard
from pipeline.corpus.funnel import SourceTally, read_tally
from pipeline.corpus.judge import JudgeJob, judge_shard, sign_earlier
from pipeline.corpus.readers.cuts import plan_shards
from pipeline.corpus.settle import SettleJob, settle_shard

NO_HOLDOUT = HoldoutWish(0, 0.0, 0)


@dataclass
class Filtered:
    """Everything that came out, in the order of the rows."""

    kept: list[Trace] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    panel: list[Problem] = field(default_factory=list)
    reserve: list[Problem] = field(default_factory=list)
    tally: SourceTally = field(default_factory=lambda: SourceTally("all"))
    reduction: Reduction | None = None

    def reasons(self) -> list[tuple[str, str]]:
        return [(row.origin, row.reason) for row in self.dropped]


def row(problem: str, boxed: Any, text: str = "It is clearly equal to", **more: Any) -> Any:
    """A row whose reply boxes an answer."""
    return {"problem": problem, "solution": f"{text} \\boxed{{{boxed}}}.", **more}


def write_files(folder: Path, files: list[list[Any]]) -> list[tuple[Path, str, int]]:
    """JSON lines f0.jsonl, f1.jsonl …; bytes are written as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for number, rows in enumerate(files):
        path = folder / f"f{number}.jsonl"
        lines = (one if isinstance(one, bytes) else json.dumps(one).encode() for one in rows)
        path.write_bytes(b"\n".join(lines))
        found.append((path, path.name, number))
    return found


def fresh(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def judge_files(
    base: Path, folder: Path, params: Params, shards: list[Shard], sources: list[SourceParams]
) -> list[Path]:
    """The judged folders of all shards."""
    places = tuple(range(len(sources)))
    job = JudgeJob(str(base), params.prompt, params.filter, tuple(sources), places)
    folders = [fresh(folder / f"judged/{shard.number}") for shard in shards]
    for shard, target in zip(shards, folders, strict=True):
        judge_shard(job, shard, target, inline_watch())
    return folders


def run_filter(
    base: Path,
    folder: Path,
    params: Params,
    *files: list[Any],
    wish: HoldoutWish = NO_HOLDOUT,
    earlier: tuple[str, ...] = (),
    shard_bytes: int = 2**20,
) -> Filtered:
    """Judge, reduce and settle the rows of some files.

    Args:
        base: folder of a tokenizer.
        folder: an empty one, for everything that is written.
        earlier: texts of problems that an earlier run held out.
    """
    listed = write_files(folder, list(files))
    shards = plan_shards(listed, shard_bytes)
    sources = [SourceParams(path=name) for _, name, _ in listed]
    judged = judge_files(base, folder, params, shards, sources)
    known = [Problem(problem_id(text), text, "", "e", "e:1") for text in earlier]
    sign_earlier(folder / "earlier", known, params.filter.near_copy_similarity)
    entry = [shard.entry for shard in shards]
    index = JudgedShards(judged, entry, entry, folder / "earlier")
    found = Filtered(reduction=reduce_entries(index, folder / "d", params.filter, wish))
    folders = tuple(str(path) for path in judged)
    job = SettleJob(str(base), params.prompt, folders, str(folder / "d"))
    for shard, path in zip(shards, judged, strict=True):
        target = fresh(folder / f"settled/{shard.number}")
        settle_shard(job, shard, target, inline_watch())
        found.kept += read_rows(Trace, target / "kept.jsonl")
        found.dropped += read_rows(Dropped, target / "dropped.jsonl")
        found.panel += read_rows(Problem, target / "panel.jsonl")
        found.reserve += read_rows(Problem, target / "reserve.jsonl")
        found.tally.add(read_tally(path / "tally.json"))
        found.tally.add(read_tally(target / "tally.json"))
    return found
