"""Stage decontaminate: drop training problems that repeat a protected one.

Reads  work/filter/kept.jsonl, work/filter/panel.jsonl, work/prepare/data.json and
       the protected files that it lists
Writes work/decontaminate/: kept.jsonl, dropped.jsonl, then report.json
Run    dvc repro decontaminate    or    python -m pipeline.decontaminate
"""

from __future__ import annotations

from pathlib import Path

from pipeline.base.artifacts import read_json, write_json
from pipeline.base.params import Params
from pipeline.base.progress import Progress
from pipeline.base.records import Dropped, Trace, read_rows, write_rows
from pipeline.base.stage import run_stage
from pipeline.corpus.decontamination import clean, describe, load_sets, protect
from pipeline.corpus.funnel import nothing_left
from pipeline.corpus.overlap import Boilerplate

KEPT = Path("work/filter/kept.jsonl")
OUT = Path("work/decontaminate")


def main(params: Params) -> None:
    """Index what is protected, count boilerplate, drop the copies."""
    settings = params.decontaminate
    sets = load_sets(read_json(Path("work/prepare/data.json"))["protected"])
    protected = protect(sets, settings.ngram_words)
    boilerplate = Boilerplate(settings.boilerplate_share)
    for trace in read_rows(Trace, KEPT):
        boilerplate.note(protected, trace.id, trace.problem)
    progress = Progress("decontaminate", "rows", None)
    dropped: list[Dropped] = []
    rows = read_rows(Trace, KEPT)
    clean_rows = clean(rows, protected, boilerplate, sets, dropped, progress)
    kept = write_rows(OUT / "kept.jsonl", clean_rows)
    write_rows(OUT / "dropped.jsonl", dropped)
    if not kept:
        raise nothing_left(len(dropped), dropped, str(OUT / "dropped.jsonl"))
    write_json(OUT / "report.json", describe(kept, dropped, sets, boilerplate, settings))
    progress.close(f"{kept:,} kept, {len(dropped):,} repeat a protected problem")


if __name__ == "__main__":
    raise SystemExit(run_stage("decontaminate", main))
