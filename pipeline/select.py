"""Stage select: the clean traces that are trained, within the plan's token budget.

Reads  work/decontaminate/kept.jsonl, work/plan/corpus.json
Writes work/select/: traces.jsonl, then report.json
Run    dvc repro select    or    python -m pipeline.select
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pipeline.base.artifacts import read_json, write_json
from pipeline.base.params import Params
from pipeline.base.progress import Progress
from pipeline.base.records import Trace, read_rows, write_rows
from pipeline.base.stage import run_stage
from pipeline.corpus.funnel import nothing_left
from pipeline.corpus.selection import Limits, choose, describe, entries_of

KEPT = Path("work/decontaminate/kept.jsonl")
OUT = Path("work/select")


def main(params: Params) -> None:
    """Choose by length, rank and budget; write the chosen rows in their order."""
    settings = params.select
    corpus = read_json(Path("work/plan/corpus.json"))
    given = settings.token_budget
    limits = Limits(
        policy=settings.policy,
        max_traces=settings.max_traces_per_problem,
        sequence_tokens=int(corpus["sequence_tokens"]),
        token_budget=corpus["token_budget"] if given is None else given,
        seed=settings.seed,
    )
    progress = Progress("select", "rows", None)
    entries = entries_of(read_rows(Trace, KEPT))
    progress.add(len(entries))
    selection = choose(entries, limits)
    if not selection.chosen:
        raise nothing_left(len(entries), Counter(selection.reasons.values()))
    rows = enumerate(read_rows(Trace, KEPT))
    write_rows(OUT / "traces.jsonl", (row for place, row in rows if place in selection.chosen))
    report = describe(entries, selection, limits)
    write_json(OUT / "report.json", report)
    progress.close(f"{report['kept']:,} chosen, {report['tokens']:,} tokens")


if __name__ == "__main__":
    raise SystemExit(run_stage("select", main))
