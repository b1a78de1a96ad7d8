"""Stage plan: settle everything that params leave open, and say why.

Reads work/prepare/base.json, work/probe/machine.json and
work/decontaminate/report.json. Writes work/plan/corpus.json (sequence length
and unique tokens for select and tokenize), work/plan/evaluation.json (for
baseline and evaluate; its reasons are in evaluation_why.json) and, last,
work/plan/plan.json (for train) with a memory table, the time shares and a
sentence for every decision.
Run: `dvc repro plan` or `python -m pipeline.plan`.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.base.artifacts import read_json, write_json
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import ModelShape
from pipeline.base.params import Params
from pipeline.base.stage import run_stage
from pipeline.hardware.machine import machine_from_json
from pipeline.hardware.planner import make_plans

BASE = Path("work/prepare/base.json")
MACHINE = Path("work/probe/machine.json")
CLEAN = Path("work/decontaminate/report.json")
PLANS = Path("work/plan")


def main(params: Params) -> None:
    """Read the facts, plan, print the reasons, write the files."""
    clean = read_json(CLEAN)
    if clean["kept"] < 1:
        raise UserError(
            f"{CLEAN}: no trace is left of {clean['read']} ({clean['dropped']})",
            "Give more data in data.sources, or see work/filter/funnel.json for what dropped them.",
        )
    shape = ModelShape(**read_json(BASE)["shape"])
    plans = make_plans(shape, machine_from_json(read_json(MACHINE)), params)
    for sentence in [*plans.training["why"], *plans.evaluation_why]:
        print(f"plan: {sentence}", flush=True)
    write_json(PLANS / "corpus.json", plans.corpus)
    write_json(PLANS / "evaluation.json", plans.evaluation)
    write_json(PLANS / "evaluation_why.json", plans.evaluation_why)
    write_json(PLANS / "plan.json", plans.training)


if __name__ == "__main__":
    raise SystemExit(run_stage("plan", main))
