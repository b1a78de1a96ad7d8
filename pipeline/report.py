"""Stage report: the pages and the picture that a person reads.

Reads  every JSON file of the stages before it, work/train/steps.csv, both
       samples.jsonl, work/filter/panel.jsonl; runs/ and run_summary.json if there
Writes work/report/loss.svg, adapter_card.md, results.md
Run    dvc repro report    or    python -m pipeline.report [--partial]

With --partial, for a DAG that was cut, it reports whatever exists.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from pipeline.base.artifacts import write_text
from pipeline.base.params import Params
from pipeline.base.stage import run_stage
from pipeline.summary.card import adapter_card
from pipeline.summary.charts import loss_chart
from pipeline.summary.evidence import collect
from pipeline.summary.results import CUT_NOTE, LOSS_PICTURE, results_page

RESULTS = Path("results.md")


def is_finished_page(page: Path) -> bool:
    """Whether a page is there that does not say of itself that its run was cut."""
    return page.is_file() and CUT_NOTE not in page.read_text(encoding="utf-8")


def main(params: Params, *, cut: bool = False) -> None:
    """Write the three files; `cut` allows stages that have not run."""
    if cut and is_finished_page(RESULTS):
        print(f"report: {RESULTS} of the last finished run stays as it is")
        return
    evidence = collect(Path(), partial=cut)
    steps, losses = [step for step, _ in evidence.steps], [loss for _, loss in evidence.steps]
    title = f"Training loss: {params.report.title}"
    write_text(Path(LOSS_PICTURE), loss_chart(steps, losses, title))
    write_text(Path("adapter_card.md"), adapter_card(evidence, params))
    write_text(RESULTS, results_page(evidence, params))
    print("report: results.md, adapter_card.md")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write results.md and adapter_card.md.")
    parser.add_argument("--partial", action="store_true", help="report what exists of a cut run")
    raise SystemExit(run_stage("report", partial(main, cut=parser.parse_args().partial)))
