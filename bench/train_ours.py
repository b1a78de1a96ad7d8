"""Our own ways of bench.train: plan, supervisor and worker as in a real run.

    python -m bench.train_ours OUT WAY TASK... --steps N --rank R

Called by `bench.train`. The params are those of presets/qwen3-14b-h200x1.yaml with the shape's
length and the storage of the base that the way names (ours-bf16, ours-fp8, ours-nf4, ours-int8);
the planner chooses all else. Figures come from the run's steps.jsonl. The loss check starts the
same worker class from the common first adapter (`bench.train_seeded`). A run's folder is deleted
once read: its checkpoint takes 3 GB.
"""

from __future__ import annotations

import itertools
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from bench import train_small_card
from bench.train_sizes import TARGETS, read_models
from bench.train_tasks import (
    CHECK,
    CHECK_STEPS,
    ROOT,
    Asked,
    child_arguments,
    lengths_of,
    read_machine,
    speed_data,
    speed_figures,
    write_result,
)
from pipeline.base.artifacts import read_json
from pipeline.base.fingerprint import model_shape
from pipeline.base.params import Params, load_params
from pipeline.hardware.choices import USABLE
from pipeline.hardware.machine import Gpu, Machine
from pipeline.hardware.planner import make_plans
from pipeline.hardware.probe import probe
from pipeline.learning import launch
from pipeline.learning.checkpoint import as_rows
from pipeline.learning.job import Job, describe
from pipeline.learning.supervisor import Supervisor

PRESET = ROOT / "presets/qwen3-14b-h200x1.yaml"
STORAGE = {"bf16": "none", "small-card": "nf4"}
"""Ending of a way → `train.base_quantization`, where they differ."""
NO_RATE = 1e-30
"""A learning rate whose updates change no sum in fp32 or bf16."""
SMALL_CARD = "ours-small-card"
LONGEST_SECONDS = 3600.0


def params_of(asked: Asked, tokens: int, steps: int, rate: float, kind: str) -> Params:
    """The preset with what this task fixes; what it leaves open the planner decides."""
    storage = asked.way.removeprefix("ours-")
    recipe = asked.recipe
    tree = load_params(PRESET).model_dump(by_alias=True)
    tree["plan"] |= {"device": kind, "sequence_tokens": tokens, "micro_batch_sequences": 1}
    tree["train"] |= {
        "rank": recipe.rank,
        "alpha": recipe.alpha,
        "target_modules": list(TARGETS),
        "learning_rate": rate,
        "warmup_share": 0.0,
        "steps": steps,
        "tokens_per_step": tokens,
        "clip_norm": recipe.clip_norm,
        "beta1": recipe.beta1,
        "beta2": recipe.beta2,
        "precision": "float32" if kind == "cpu" else "auto",
        "base_quantization": STORAGE.get(storage, storage),
        "seed": recipe.seed,
        "keep_checkpoints": 1,
    }
    tree["curriculum"] |= {"bands": [tokens], "stages": []}
    tree["evaluation"] |= {"max_new_tokens": min(1024, tokens)}
    if asked.way == SMALL_CARD:
        tree["train"]["optimizer"] = "adamw-8bit"
    return Params.model_validate(tree)


def machine_of(way: str) -> Machine:
    """The machine to plan for: this one, or one with the card that is played."""
    found = probe()
    if way != SMALL_CARD:
        return found
    card = Gpu(
        0, "Tesla T4", train_small_card.LIMIT_GIB / USABLE["cuda"], train_small_card.CAPABILITY
    )
    return replace(found, gpus=(card,))


def make_job(
    asked: Asked, base: Path, data: Path, steps: int, rate: float
) -> tuple[Job, dict[str, Any]]:
    """A described job on one device in this folder's runs/, and its plan.json."""
    tokens = int(read_json(data / "manifest.json")["sequence_tokens"])
    kind = read_machine(asked.out)["kind"]
    params = params_of(asked, tokens, steps, rate, kind)
    plan = make_plans(model_shape(base), machine_of(asked.way), params).training
    prepared = {"path": str(base), "fingerprint": base.name}
    job = describe(params.train, prepared, plan, data)
    shutil.rmtree(job.run, ignore_errors=True)
    job.run.mkdir(parents=True)
    job.write()
    return job, plan


def run(job: Job) -> None:
    """One attempt, supervised as in a real run."""
    Supervisor(job, lambda _: None, lambda: None).run(time.time() + LONGEST_SECONDS)


def rows_of(job: Job) -> list[dict[str, Any]]:
    """Figures of every step; the run's folder is deleted."""
    rows: list[dict[str, Any]] = list(as_rows(job.steps_file))
    shutil.rmtree(job.run)
    return rows


def speed(asked: Asked, shape: str) -> dict[str, Any]:
    """Seconds of every step of a shape, and its peak memory."""
    data = speed_data(asked.out, shape, read_models(asked.out).base.vocabulary)
    rate = asked.recipe.learning_rate
    job, plan = make_job(asked, asked.out / "base", data, asked.steps, rate)
    worker = "bench.train_small_card" if asked.way == SMALL_CARD else launch.WORKER
    with mock.patch.object(launch, "WORKER", worker):
        run(job)
    rows = rows_of(job)
    ends = [0.0, *(float(row["seconds"]) for row in rows)]
    seconds = [after - before for before, after in itertools.pairwise(ends)]
    losses = [float(row["loss"]) for row in rows]
    figures = speed_figures(seconds, losses, rows[-1]["memory_gib"], sum(lengths_of(shape)))
    chosen = {k: v for k, v in plan["training"].items() if isinstance(v, str | int | float | bool)}
    planned = {
        "tokens_per_second": plan["time"]["tokens_per_second"],
        "peak_gib": plan["memory_needed_gib"],
    }
    return {**figures, "plan": chosen, "planned": planned}


def seeded_losses(asked: Asked, data: Path, steps: int, rate: float) -> list[float]:
    """Losses of a short run that starts from the common first adapter."""
    job, _ = make_job(asked, asked.out / "check-base", data, steps, rate)
    with (
        mock.patch.object(launch, "WORKER", "bench.train_seeded"),
        mock.patch.dict(os.environ, {"FIRST_ADAPTER": str(asked.out / "first-adapter")}),
    ):
        run(job)
    return [float(row["loss"]) for row in rows_of(job)]


def check(asked: Asked) -> dict[str, Any]:
    """Losses on the text while it is learnt, and what a document sees of the one before it."""
    losses = seeded_losses(asked, asked.out / "data/check", CHECK_STEPS, asked.recipe.learning_rate)
    first, second = seeded_losses(asked, asked.out / "data/leak", 2, NO_RATE)
    return {"losses": losses, "leak": abs(first - second)}


def main() -> None:
    """Do the tasks in turn; each result is written as soon as it is there."""
    asked = child_arguments(__doc__)
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    home = asked.out / "ours"
    home.mkdir(exist_ok=True)
    os.chdir(home)
    for task in asked.tasks:
        figures = check(asked) if task == CHECK else speed(asked, task)
        write_result(asked.out, asked.way, task, figures)


if __name__ == "__main__":
    main()
