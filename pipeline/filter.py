"""Stage filter: rows of every file become traces; what does not fit gets a reason.

Reads  work/prepare/base.json, work/prepare/data.json and the files that it lists
Writes work/filter/: kept.jsonl, dropped.jsonl, panel.jsonl, then funnel.json
Run    dvc repro filter    or    python -m pipeline.filter
"""

from __future__ import annotations

from pathlib import Path

from pipeline.base.artifacts import read_json, write_json
from pipeline.base.chat import Chat
from pipeline.base.params import Params
from pipeline.base.progress import Progress
from pipeline.base.records import Problem, Trace, read_rows, write_rows
from pipeline.base.stage import run_stage
from pipeline.corpus.funnel import describe_funnel, nothing_left
from pipeline.corpus.intake import Intake
from pipeline.corpus.panels import given_panel, verified
from pipeline.corpus.rules import settings_for
from pipeline.corpus.sources import source_names

OUT = Path("work/filter")


def main(params: Params) -> None:
    """Read, judge, hold out, count tokens."""
    data = read_json(Path("work/prepare/data.json"))
    chat = Chat(Path(read_json(Path("work/prepare/base.json"))["path"]), params.prompt)
    paths = [verified(entry) for entry in data["sources"]]
    given = given_panel(params, data["panel"])
    progress = Progress("filter", "rows", None)
    intake = Intake(chat, settings_for(chat, params.filter), progress)
    scratch = OUT / "survivors.jsonl"
    try:
        write_rows(scratch, intake.first_pass(list(zip(paths, source_names(paths), strict=True))))
        held = intake.held_out(params.filter.holdout_problems, params.filter.holdout_seed)
        kept = write_rows(OUT / "kept.jsonl", intake.second_pass(read_rows(Trace, scratch), held))
    finally:
        scratch.unlink(missing_ok=True)
    write_rows(OUT / "dropped.jsonl", intake.dropped)
    funnel = describe_funnel(intake.tallies.values())
    if not kept:
        raise nothing_left(funnel["read"], intake.dropped, str(OUT / "dropped.jsonl"))
    panel: list[Problem] = given.problems if given else list(intake.panel.values())
    write_rows(OUT / "panel.jsonl", panel)
    funnel["panel"] = given.summary() if given else {"read": len(panel), "kept": len(panel)}
    write_json(OUT / "funnel.json", funnel)
    progress.close(f"{kept:,} of {funnel['read']:,} traces kept, {len(panel)} panel problems")


if __name__ == "__main__":
    raise SystemExit(run_stage("filter", main))
