"""One evaluation of one model on the panel: what baseline and evaluate share.

Every problem is asked under every prompt variant, `main` first and to its end, then the
others in the order of params.yaml. The figures of `main` are those of the run, and
choices rest on them alone; scores.json has the others' under `variants`, a key that a
run without variants does not have.

Reads work/filter/panel.jsonl, work/plan/evaluation.json and work/prepare/base.json;
writes samples.jsonl and scores.json into the stage's folder. Run it through
`dvc repro baseline` or `dvc repro evaluate`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.base.artifacts import read_json, write_json
from pipeline.base.budget import open_budget
from pipeline.base.errors import UserError
from pipeline.base.params import Params
from pipeline.base.prompt_variants import Prompts
from pipeline.base.records import MAIN, Problem, Sample, read_rows, write_rows
from pipeline.measurement.engine import Reply, Request, Sampling, TimeLeft, decode
from pipeline.measurement.scoring import complete_problems, make_sample, summarise

PANEL = Path("work/filter/panel.jsonl")
SETTINGS = Path("work/plan/evaluation.json")
BASE = Path("work/prepare/base.json")


class Settings(BaseModel):
    """evaluation.json: what the plan stage decided for this machine."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    problems: int = Field(ge=0)
    samples_per_problem: int = Field(ge=1)
    max_new_tokens: int = Field(ge=1)
    batch_sequences: int = Field(ge=1)
    device: str
    dtype: str
    quantization: str
    threads: int = Field(ge=1)


Load = Callable[[Path, Settings], Any]
"""Builds the model to measure from the base's folder."""


def read_settings(path: Path) -> Settings:
    """Read evaluation.json.

    Raises:
        UserError: naming the first key that is missing, unknown or wrong.
    """
    try:
        return Settings.model_validate(read_json(path))
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"])
        raise UserError(
            f"{path}: `{key}`: {fault['msg'].lower()}", "Run `dvc repro plan`."
        ) from None


def choose_problems(problems: list[Problem], count: int, seed: int) -> list[Problem]:
    """`count` problems by hash of id and seed: a smaller choice is part of a larger one."""

    def place(problem: Problem) -> str:
        return hashlib.sha256(f"{seed}/{problem.id}".encode()).hexdigest()

    distinct = {problem.id: problem for problem in problems}.values()
    return sorted(sorted(distinct, key=place)[:count], key=lambda problem: problem.id)


def time_share(params: Params, root: Path) -> TimeLeft:
    """Seconds that one evaluation may still take.

    Half of the evaluation share of the time that the job really has, counted from
    this call; never into the reserve that export, verify and report need. Asking
    keeps the job's clock alive.
    """
    budget = open_budget(root, params.budget.hours)
    share = params.budget.evaluation_share * budget.allowed() / 2
    reserve = params.budget.reserve_minutes * 60
    end = time.monotonic() + max(0.0, min(share, budget.remaining() - reserve))

    def left() -> float:
        budget.beat()
        return end - time.monotonic()

    return left


def run_panel(label: str, folder: Path, params: Params, load: Load) -> None:
    """Measure one model and write samples.jsonl and scores.json into `folder`.

    Args:
        label: "base" or "adapter", for the report.
        folder: the stage's output folder.
        load: called once there is something to ask and time to do it.
    """
    started = time.monotonic()
    left = time_share(params, Path.cwd())
    settings = read_settings(SETTINGS)
    base = Path(read_json(BASE)["path"])
    chosen = choose_problems(
        list(read_rows(Problem, PANEL)), settings.problems, params.evaluation.seed
    )
    prompts = Prompts(base, params.prompt)
    replies: list[Reply] = []
    decoding = 0.0
    if chosen and left() > 0:
        torch.set_num_threads(settings.threads)
        model = load(base, settings)
        begun = time.monotonic()
        replies = decode(
            model,
            requests_for(chosen, prompts, settings.samples_per_problem),
            sampling_of(params, settings, prompts),
            settings.batch_sequences,
            label=folder.name,
            time_left=left,
        )
        decoding = time.monotonic() - begun
    samples = grade_replies(chosen, replies, prompts)
    rates = {
        name: _rates([one for one in samples if one.variant == name], len(chosen), settings)
        for name in prompts.chats
    }
    scores = {
        "label": label,
        **rates.pop(MAIN),
        "seconds": round(time.monotonic() - started, 2),
        "tokens_per_second": _rate(samples, decoding),
        "sampling": _sampling_record(params, settings),
        **({"variants": rates} if rates else {}),
    }
    write_rows(folder / "samples.jsonl", samples)
    write_json(folder / "scores.json", scores)
    print("\n".join(summary_lines(scores)), flush=True)


def requests_for(problems: list[Problem], prompts: Prompts, k: int) -> list[Request]:
    """k requests a problem and variant; all those of `main` come first."""
    asked = {problem.id: dict(prompts.ask(problem.problem)) for problem in problems}
    return [
        Request(problem.id, sample, tuple(asked[problem.id][variant]), variant)
        for variant in prompts.chats
        for problem in problems
        for sample in range(k)
    ]


def sampling_of(params: Params, settings: Settings, prompts: Prompts) -> Sampling:
    """Sampling as params and plan say; it ends where `Chat.end_ids` says, for all variants."""
    return Sampling(
        temperature=params.evaluation.temperature,
        top_p=params.evaluation.top_p,
        max_new_tokens=settings.max_new_tokens,
        seed=params.evaluation.seed,
        end_ids=frozenset(prompts.main.end_ids),
        pad_id=prompts.main.pad_id,
    )


def grade_replies(problems: list[Problem], replies: list[Reply], prompts: Prompts) -> list[Sample]:
    """One graded sample a finished reply, in the replies' order."""
    by_id = {problem.id: problem for problem in problems}
    return [
        make_sample(
            by_id[reply.problem],
            reply.sample,
            reply.variant,
            prompts.chats[reply.variant].prompt_text(by_id[reply.problem].problem),
            prompts.chats[reply.variant].decode(list(reply.ids)),
            len(reply.ids),
            reply.truncated,
        )
        for reply in replies
    ]


def summary_lines(scores: dict[str, Any]) -> list[str]:
    """What the stage prints at its end: a line for `main`, one for every other variant."""
    label, others = scores["label"], scores.get("variants", {})
    return [
        _summary_line(label, scores),
        *(_summary_line(f"{label}, prompt {name}", one) for name, one in others.items()),
    ]


def _summary_line(label: str, scores: dict[str, Any]) -> str:
    if not scores["problems"]:
        return f"{label}: no problem of {scores['requested_problems']} was finished in time"
    low, high = scores["pass_at_1_interval"]
    line = (
        f"{label}: pass@1 {scores['pass_at_1']:.3f} [{low:.3f}, {high:.3f}], "
        f"best of {scores['k']} {scores['best_of_k']:.3f} on {scores['problems']} problems"
    )
    if scores["ended_by"] == "time":
        line += f" ({scores['requested_problems']} were asked: the time share ended)"
    return line


def _rates(samples: list[Sample], asked: int, settings: Settings) -> dict[str, Any]:
    """The figures of one variant's samples, and whether time left some problems out."""
    k = settings.samples_per_problem
    finished = len(complete_problems(samples, k))
    return {
        **summarise(samples, k),
        "requested_problems": asked,
        "ended_by": "complete" if finished == asked else "time",
    }


def _rate(samples: list[Sample], seconds: float) -> float | None:
    """Tokens a second of the finished replies."""
    tokens = sum(sample.tokens for sample in samples)
    return round(tokens / seconds, 2) if tokens and seconds > 0 else None


def _sampling_record(params: Params, settings: Settings) -> dict[str, Any]:
    return {
        "temperature": params.evaluation.temperature,
        "top_p": params.evaluation.top_p,
        "seed": params.evaluation.seed,
        "max_new_tokens": settings.max_new_tokens,
        "dtype": settings.dtype,
        "device": settings.device,
        "quantization": settings.quantization,
    }
