"""Every setting of a run, typed; reads params.yaml.

`params.yaml` holds `budget`, the inputs, then one section per stage. Unknown
keys are refused and all faults are reported in one message. Nothing here edits
a value: what is `null` is derived by the plan stage, which writes what it chose.
The corpus room's sections are in params_corpus.py, the recipe in params_train.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.base.errors import UserError
from pipeline.base.params_corpus import (
    EMBEDDED,
    HOLDOUT,
    DataParams,
    DecontaminateParams,
    ExecutorParams,
    FilterParams,
    HoldoutParams,
    Section,
    SelectParams,
    SemanticParams,
    SourceParams,
)
from pipeline.base.params_train import TrainParams

__all__ = [
    "EMBEDDED",
    "HOLDOUT",
    "DataParams",
    "DecontaminateParams",
    "ExecutorParams",
    "FilterParams",
    "HoldoutParams",
    "Params",
    "Section",
    "SelectParams",
    "SemanticParams",
    "SourceParams",
    "TrainParams",
    "load_params",
]


class BudgetParams(Section):
    """The wall clock of one job, restarts included."""

    hours: float = Field(gt=0, le=10_000)
    """Hard limit in hours; a `sandbox-timer` command that reports less wins."""
    evaluation_share: float = Field(ge=0, lt=1)
    """Share of the budget for `baseline` and `evaluate` together."""
    reserve_minutes: float = Field(ge=0)
    """Kept free at the end, in minutes, for saving, export, verify and report."""


class BaseParams(Section):
    """The frozen model."""

    path: str = Field(min_length=1)
    """Folder with config, tokenizer and safetensors; or `embedded`."""


class PlanParams(Section):
    """Choices that may be left to the machine; null means: derive it."""

    device: Literal["auto", "cpu", "cuda"]
    """`auto` takes every visible GPU, else the CPU."""
    sequence_tokens: int | None = Field(default=None, ge=64)
    """Length of a packed sequence in tokens; longer rows are dropped whole."""
    micro_batch_sequences: int | None = Field(default=None, ge=1)
    """Packed sequences in one forward pass on one device."""
    gradient_checkpointing: bool | None = None
    """Recompute activations in the backward pass."""
    training_tokens_per_second: float | None = Field(default=None, gt=0)
    """Measured rate of this machine; null uses the rate that the probe predicts."""


class PromptVariant(Section):
    """One way of putting a problem to the model."""

    name: str = Field(min_length=1, pattern=r"^[a-z0-9-]+$")
    """Under which it is evaluated and reported."""
    weight: float = Field(gt=0)
    """Share of the training rows relative to the other variants."""
    system: str | None
    """As `prompt.system`."""
    instruction: str
    """As `prompt.instruction`."""
    thinking: Literal["template", "on", "off", "empty-prefill"]
    """As `prompt.thinking`."""


class PromptParams(Section):
    """How a problem is put to the model, in training and in evaluation alike."""

    system: str | None
    """System message; null sends none (a template may add its own)."""
    instruction: str
    """Text appended to the problem after a blank line; empty appends nothing."""
    thinking: Literal["template", "on", "off", "empty-prefill"]
    """`on` and `off` are passed to the template as enable_thinking, `template` leaves its
    default; `empty-prefill` closes an empty thinking block where the template writes none."""
    template: str | None = Field(default=None, min_length=1)
    """File with a Jinja chat template that replaces the base's; null takes the base's."""
    variants: list[PromptVariant]
    """Further prompts to train where the scorer's is not known; the prompt above is `main`,
    with weight 1."""


class StageParams(Section):
    """One stage of the curriculum."""

    sequence_tokens: int = Field(ge=64)
    """Length of its sequences; one of `curriculum.bands`."""
    share: float = Field(gt=0)
    """Of the run's steps, relative to the other stages."""
    tiers: dict[Literal["easy", "medium", "hard", "unknown"], float] | None
    """Tier → share of the stage's tokens; null takes the tiers as they come."""


class CurriculumParams(Section):
    """Length and difficulty over the course of a run."""

    bands: list[int] = Field(min_length=1)
    """Upper bounds of the length bands in tokens, ascending, each a multiple of the one before."""
    stages: list[StageParams]
    """In their order; empty is one stage of `plan.sequence_tokens`, tiers as they come."""


class EvaluationParams(Section):
    """How base and adapter are sampled; both the same way."""

    problems: int = Field(ge=1)
    """Panel problems to ask; the plan may lower it to fit the clock."""
    samples_per_problem: int = Field(ge=1)
    """Replies a problem; best-of-k uses all of them."""
    temperature: float = Field(ge=0)
    """Sampling temperature; 0 is greedy."""
    top_p: float = Field(gt=0, le=1)
    """Nucleus mass."""
    max_new_tokens: int = Field(ge=1)
    """Tokens after which a reply counts as truncated."""
    batch_sequences: int | None = Field(default=None, ge=1)
    """Replies decoded at a time; null derives it from memory."""
    seed: int = Field(ge=0)
    """Seed of the sampling streams, one stream a reply."""


class ExportParams(Section):
    """The adapter that leaves the building."""

    dtype: Literal["bfloat16", "float16", "float32"]
    """Stored type of the adapter's tensors."""


class VerifyParams(Section):
    """Limits of the contract (docs/contract.md)."""

    max_rank: int = Field(ge=1)
    """Largest rank of any module."""
    max_elements: int = Field(ge=1)
    """Largest number of adapter elements."""
    max_gib: float = Field(gt=0)
    """Largest size of the adapter folder in GiB."""


class ReportParams(Section):
    """The page that a person reads."""

    title: str
    """Heading of results.md."""


class Params(Section):
    """The whole of params.yaml, in the order of the flow."""

    budget: BudgetParams
    base: BaseParams
    data: DataParams
    executor: ExecutorParams
    filter: FilterParams
    holdout: HoldoutParams
    semantic: SemanticParams
    decontaminate: DecontaminateParams
    plan: PlanParams
    select: SelectParams
    prompt: PromptParams
    curriculum: CurriculumParams
    train: TrainParams
    evaluation: EvaluationParams
    export: ExportParams
    verify: VerifyParams
    report: ReportParams


def _faults(path: Path, error: ValidationError) -> str:
    """All faults of one file in one line: key, value, what is wrong."""
    parts = []
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            parts.append(f"unknown key `{key}`")
        elif fault["type"] == "missing":
            parts.append(f"missing key `{key}`")
        else:
            parts.append(f"`{key}` = {fault['input']!r}: {fault['msg'].lower()}")
    return f"{path}: " + "; ".join(parts)


def load_params(path: Path) -> Params:
    """Read and check a params file.

    Raises:
        UserError: with every fault of the file in one message.
    """
    try:
        with path.open(encoding="utf-8") as stream:
            tree = YAML(typ="safe").load(stream)
    except FileNotFoundError:
        raise UserError(
            f"{path}: file not found", "Run from the project's folder or pick one: `make use`."
        ) from None
    except IsADirectoryError:
        raise UserError(
            f"{path} is a folder", "Move it away; `make use` writes the file."
        ) from None
    except (YAMLError, UnicodeDecodeError) as error:
        first = " ".join(str(error).split())
        raise UserError(f"{path}: not valid YAML ({first})", "Correct that line.") from None
    try:
        return Params.model_validate(tree)
    except ValidationError as error:
        raise UserError(
            _faults(path, error),
            "Correct these keys; pipeline/base/params.py describes every one.",
        ) from None
