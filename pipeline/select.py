"""Stage select: the clean traces that are trained, within the plan's token budget.

Reads  work/decontaminate/kept.jsonl, work/prepare/data.json, work/plan/corpus.json
Writes work/select/: traces.jsonl, then report.json
Run    dvc repro select    or    python -m pipeline.select
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import compress
from pathlib import Path

from pipeline.base.artifacts import Json, read_json, write_json
from pipeline.base.params import Params
from pipeline.base.progress import Progress
from pipeline.base.records import read_lines, write_lines
from pipeline.base.stage import run_stage
from pipeline.corpus.funnel import nothing_left
from pipeline.corpus.readers.sources import source_names
from pipeline.corpus.selection.choice import CHOSEN, Limits, choose
from pipeline.corpus.selection.entries import read_entries
from pipeline.corpus.selection.report import describe, summary_lines

KEPT = Path("work/decontaminate/kept.jsonl")
OUT = Path("work/select")


def limits_of(params: Params, corpus: Json) -> Limits:
    """The settings, with what they leave open taken from the plan."""
    settings = params.select
    given, band, shares = settings.token_budget, settings.solve_rate, settings.tier_shares
    return Limits(
        policy=settings.policy,
        max_traces=settings.max_traces_per_problem,
        sequence_tokens=int(corpus["sequence_tokens"]),
        token_budget=corpus["token_budget"] if given is None else given,
        seed=settings.seed,
        max_tokens=settings.max_tokens,
        solve_rate=None if band is None else (band[0], band[1]),
        tier_shares=None if shares is None else {str(tier): one for tier, one in shares.items()},
    )


def _counted(lines: Iterator[bytes], progress: Progress) -> Iterator[bytes]:
    for line in lines:
        yield line
        progress.add(1)


def main(params: Params) -> None:
    """Choose by length, rank, shares and budget; copy the chosen lines in their order."""
    limits = limits_of(params, read_json(Path("work/plan/corpus.json")))
    files = read_json(Path("work/prepare/data.json"))["sources"]
    names = source_names([Path(file["path"]) for file in files])
    entry_of = {name: int(file["source"]) for name, file in zip(names, files, strict=True)}
    progress = Progress("select", "rows", None)
    entries = read_entries(_counted(read_lines(KEPT), progress), str(KEPT), entry_of)
    reasons = choose(entries, limits)
    report = describe(entries, reasons, limits, params.evaluation.max_new_tokens)
    if not report["kept"]:
        raise nothing_left(report["read"], Counter(report["dropped"]))
    write_lines(OUT / "traces.jsonl", compress(read_lines(KEPT), (reasons == CHOSEN).tolist()))
    write_json(OUT / "report.json", report)
    progress.close(f"{report['kept']:,} chosen, {report['tokens']:,} tokens")
    for line in summary_lines(report):
        print(f"select: {line}", flush=True)


if __name__ == "__main__":
    raise SystemExit(run_stage("select", main))
