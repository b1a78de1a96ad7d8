"""Stage filter: rows of every file become traces; what does not fit gets a reason.

Every shard is judged by itself (judge.py), the whole is reduced to decisions (index.py),
and every shard is settled by them (settle.py). Shards that are done are kept in
runs/corpus until the stage ends, so that a restart goes on where it stopped.

Reads  work/prepare/base.json, work/prepare/data.json and the files that they list
Writes work/filter/: kept.jsonl, dropped.jsonl, panel.jsonl, reserve.jsonl, then funnel.json
Run    dvc repro filter    or    python -m pipeline.filter
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pipeline.base.artifacts import Json, read_json, write_json
from pipeline.base.params import HOLDOUT, Params
from pipeline.base.progress import Progress
from pipeline.base.records import write_rows
from pipeline.base.stage import run_stage
from pipeline.corpus.copies.decisions import HoldoutWish
from pipeline.corpus.copies.index import JudgedShards, Reduction, reduce_entries
from pipeline.corpus.execution.executor import run_shards
from pipeline.corpus.execution.scratch import forget_scratch, merge_files, scratch_folder
from pipeline.corpus.execution.shards import Shard
from pipeline.corpus.funnel import SourceTally, describe_funnel, nothing_left, read_tally
from pipeline.corpus.judge import JudgeJob, judge_shard, sign_earlier
from pipeline.corpus.panels import Questions, earlier_problems, given_panel, verified
from pipeline.corpus.readers.cuts import plan_shards
from pipeline.corpus.readers.sources import source_names
from pipeline.corpus.settle import OUTPUTS, SettleJob, settle_shard

OUT = Path("work/filter")


@dataclass(frozen=True)
class _Inputs:
    """What the stage works on."""

    base: Json
    data: Json
    shards: list[Shard]
    source_of: tuple[int, ...]
    """For every file the number of its source."""


def _open_inputs(params: Params) -> _Inputs:
    data = read_json(Path("work/prepare/data.json"))
    paths = [verified(entry) for entry in data["sources"]]
    files = list(zip(paths, source_names(paths), range(len(paths)), strict=True))
    shards = plan_shards(files, max(1, int(params.executor.shard_mib * 2**20)))
    source_of = tuple(entry["source"] for entry in data["sources"])
    return _Inputs(read_json(Path("work/prepare/base.json")), data, shards, source_of)


def _scratch(params: Params, inputs: _Inputs) -> Path:
    sections = params.model_dump(include={"data", "filter", "holdout", "prompt"}, mode="json")
    decides = {"params": sections, "base": inputs.base, "data": inputs.data}
    cut = {"shard_mib": params.executor.shard_mib, "rensa": version("rensa")}
    return scratch_folder("filter", decides | cut)


def _judge(params: Params, inputs: _Inputs, scratch: Path, progress: Progress) -> list[Path]:
    sources = tuple(params.data.described())
    job = JudgeJob(inputs.base["path"], params.prompt, params.filter, sources, inputs.source_of)
    sizes = [shard.bytes for shard in inputs.shards]
    return run_shards(
        "judge", judge_shard, job, inputs.shards, scratch, params.executor, progress, sizes
    )


def _reduce(params: Params, inputs: _Inputs, scratch: Path, judged: Sequence[Path]) -> Reduction:
    earlier = scratch / "earlier"
    problems = earlier_problems(inputs.data.get("earlier", []))
    sign_earlier(earlier, problems, params.filter.near_copy_similarity)
    files = [shard.entry for shard in inputs.shards]
    shards = JudgedShards(judged, files, [inputs.source_of[file] for file in files], earlier)
    asked = params.holdout.problems if params.data.panel == HOLDOUT else 0
    wish = HoldoutWish(asked, params.holdout.reinforcement_share, params.holdout.seed)
    return reduce_entries(shards, scratch / "decisions", params.filter, wish)


def _settle(params: Params, inputs: _Inputs, scratch: Path, judged: Sequence[Path]) -> list[Path]:
    folders = tuple(str(path) for path in judged)
    decisions = str(scratch / "decisions")
    job = SettleJob(inputs.base["path"], params.prompt, folders, decisions)
    progress = Progress("filter: settle", "traces", None)
    sizes = [(path / "survivors.jsonl").stat().st_size for path in judged]
    return run_shards(
        "settle", settle_shard, job, inputs.shards, scratch, params.executor, progress, sizes
    )


def _tallies(shards: Sequence[Shard], *steps: Sequence[Path]) -> list[SourceTally]:
    """The counts of every file, over its shards and the steps."""
    found: dict[int, SourceTally] = {}
    for folders in steps:
        for shard, folder in zip(shards, folders, strict=True):
            tally = found.setdefault(shard.entry, SourceTally(shard.source))
            tally.add(read_tally(folder / "tally.json"))
    return list(found.values())


def _write(
    params: Params,
    inputs: _Inputs,
    tallies: list[SourceTally],
    given: Questions | None,
    found: Reduction,
    settled: Sequence[Path],
) -> str:
    """Write the outputs, funnel.json last; a sentence for the user."""
    for name in OUTPUTS:
        merge_files(settled, name, OUT / name)
    funnel = describe_funnel(tallies)
    for entry, number in zip(funnel["sources"], inputs.source_of, strict=True):
        source = params.data.described()[number]
        entry |= {"from": source.path, "kind": source.kind, "tier": source.tier}
    if not funnel["kept"]:
        examples = {k: v for tally in reversed(tallies) for k, v in tally.examples.items()}
        listing = str(OUT / "dropped.jsonl")
        raise nothing_left(funnel["read"], Counter(funnel["dropped"]), listing, examples)
    if given is not None:
        write_rows(OUT / "panel.jsonl", given.problems)
    asked = sum(1 for _ in (OUT / "panel.jsonl").open("rb"))
    funnel["panel"] = given.summary() if given else {"read": asked, "kept": asked}
    funnel |= found.summary()
    write_json(OUT / "funnel.json", funnel)
    return f"{funnel['kept']:,} of {funnel['read']:,} traces kept, {asked} panel problems"


def main(params: Params) -> None:
    """Judge, reduce, settle, merge."""
    inputs = _open_inputs(params)
    given = given_panel(params, inputs.data["panel"])
    scratch = _scratch(params, inputs)
    progress = Progress("filter", "rows", None)
    judged = _judge(params, inputs, scratch, progress)
    for tally in _tallies(inputs.shards, judged):
        tally.require_readable(params.filter.max_unreadable_share)
    found = _reduce(params, inputs, scratch, judged)
    settled = _settle(params, inputs, scratch, judged)
    tallies = _tallies(inputs.shards, judged, settled)
    progress.close(_write(params, inputs, tallies, given, found, settled))
    forget_scratch(scratch)


if __name__ == "__main__":
    raise SystemExit(run_stage("filter", main))
