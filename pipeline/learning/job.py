"""What one training run is: its key, its folder, its fixed description. No torch.

The supervisor writes runs/<key>/job.json and the worker reads it. The key covers
everything that changes the result; what only changes how fast it is computed
(micro-batch, ranks, checkpointing) may differ from attempt to attempt.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import canonical_hash, read_json, sha256_file, write_json, write_jsonl
from pipeline.base.curriculum import Stage
from pipeline.base.params import TrainParams
from pipeline.learning.checkpoint import as_rows
from pipeline.learning.data import buckets_of
from pipeline.learning.schedule import Replan, from_json, to_json

RUNS = Path("runs")
LOCK_FILE = RUNS / "trainer.lock"

NOT_THE_RECIPE = frozenset(
    {
        "checkpoint_every_steps",
        "checkpoint_every_minutes",
        "keep_checkpoints",
        "hang_factor",
        "parallel",
        "profile_steps",
    }
)
"""Train params that do not change the result."""


@dataclass(frozen=True)
class Job:
    """One run, as written to job.json.

    Attributes:
        run: the run's folder, runs/<key>.
        base: folder of the frozen base.
        data: folder of the packed sequences.
        training: the `training` part of plan.json.
        train: the params section, as a dictionary.
        first_total: steps planned when the run was first started.
        most_steps: steps that the recipe allows however much time there is.
    """

    run: Path
    base: Path
    base_fingerprint: str
    data: Path
    manifest_sha256: str
    training: dict[str, Any]
    train: dict[str, Any]
    first_total: int
    most_steps: int

    @property
    def params(self) -> TrainParams:
        """The recipe, typed."""
        return TrainParams.model_validate(self.train)

    @property
    def stages(self) -> list[Stage]:
        """The curriculum; a run without one has a single stage."""
        return stages_of(self.training)

    @property
    def tokens_per_step(self) -> int:
        """Room of a step's sequences in tokens, over all ranks, the same at every stage."""
        return tokens_per_step(self.training)

    @property
    def micro_batch_tokens(self) -> int:
        """Room of one forward pass of one rank in tokens, the same at every stage."""
        longest = self.training["sequence_tokens"]
        return int(longest * self.training["micro_batch_sequences"])

    @property
    def journal_file(self) -> Path:
        """Re-plans of this run, one a line."""
        return self.run / "journal.jsonl"

    @property
    def steps_file(self) -> Path:
        """One line of figures a step."""
        return self.run / "steps.jsonl"

    def write(self) -> None:
        """Write job.json."""
        fields = {k: str(v) if isinstance(v, Path) else v for k, v in vars(self).items()}
        write_json(self.run / "job.json", fields)


def read_job(run: Path) -> Job:
    """The job that a supervisor wrote."""
    tree = read_json(run / "job.json")
    tree.update({key: Path(tree[key]) for key in ("run", "base", "data")})
    return Job(**tree)


def stages_of(training: dict[str, Any]) -> list[Stage]:
    """The stages of the `training` part of plan.json."""
    return [
        Stage(int(row["sequence_tokens"]), float(row["share"]), row["tiers"])
        for row in training["stages"]
    ]


def tokens_per_step(training: dict[str, Any]) -> int:
    """Room of a step, from the longest sequences of the `training` part of plan.json."""
    return int(training["sequence_tokens"] * training["sequences_per_step"])


def recipe_of(params: TrainParams, training: dict[str, Any]) -> dict[str, Any]:
    """Everything besides base and data that decides the result."""
    recipe = {k: v for k, v in params.model_dump().items() if k not in NOT_THE_RECIPE}
    decided = (
        "sequence_tokens",
        "sequences_per_step",
        "compute_dtype",
        "base_dtype",
        "quantization",
    )
    stages = [asdict(stage) for stage in stages_of(training)]
    return {**recipe, **{f"plan.{key}": training[key] for key in decided}, "plan.stages": stages}


def describe(
    params: TrainParams, prepared: dict[str, Any], plan: dict[str, Any], data: Path
) -> Job:
    """The job of these inputs.

    Args:
        prepared: base.json of the prepare stage.
        plan: plan.json of the plan stage.
        data: the tokenize stage's folder.
    """
    manifest = read_json(data / "manifest.json")
    manifest_sha256 = sha256_file(data / "manifest.json")
    training = plan["training"]
    key = canonical_hash([prepared["fingerprint"], manifest_sha256, recipe_of(params, training)])[
        :16
    ]
    room = sum(bucket.bins * bucket.band for bucket in buckets_of(manifest, data))
    per_pass = room / tokens_per_step(training)
    by_epochs = max(1, round(params.epochs * per_pass))
    by_clock = training["steps_by_clock"]
    first = params.steps or (by_epochs if by_clock is None else max(1, min(by_epochs, by_clock)))
    return Job(
        run=RUNS / key,
        base=Path(prepared["path"]),
        base_fingerprint=prepared["fingerprint"],
        data=data,
        manifest_sha256=manifest_sha256,
        training=training,
        train=params.model_dump(),
        first_total=first,
        most_steps=params.steps or by_epochs,
    )


def read_journal(job: Job) -> list[Replan]:
    """Re-plans so far; the first entry is the plan that the run started with."""
    return from_json(as_rows(job.journal_file)) or [Replan(0, job.first_total, "plan")]


def start_journal(job: Job) -> None:
    """Write down the first plan, so that later settings cannot change it."""
    if not as_rows(job.journal_file):
        write_journal(job, [Replan(0, job.first_total, "plan")])


def write_journal(job: Job, journal: list[Replan]) -> None:
    """Replace the journal."""
    write_jsonl(job.journal_file, to_json(journal))
