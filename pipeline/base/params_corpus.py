"""The settings of the corpus room: what comes in, what is kept, what is chosen.

Read through pipeline/base/params.py; docs/data.md and docs/recipe.md say why the
defaults are what they are.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

EMBEDDED = "embedded"
"""Stands for a path: take what ships with the project (see pipeline/embedded)."""

HOLDOUT = "holdout"
"""As `data.panel`: evaluate on problems held out of the training data."""

Verdict = Literal["drop", "keep"]
"""What becomes of a row of some class; a kept one is listed all the same."""

COLUMN_ROLES = ("problem", "gold", "solution", "thinking", "solve_rate", "verified", "id")
"""What a source's column may be declared to hold."""


class Section(BaseModel):
    """Base of all sections: closed, immutable, no silent conversions."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )


class SourceParams(Section):
    """One source of training rows; in params.yaml a bare path stands for `{path: …}`."""

    path: str = Field(min_length=1)
    """File, folder, glob, folder of `datasets`, `hub:NAME@COMMIT`, or `embedded`."""
    kind: Literal["auto", "traces", "generations", "solutions"] = "auto"
    """`generations`: a teacher's, kept only if verified correct; `solutions`: reference
    solutions, kept as they are; `traces`: judged against the stated answer; `auto` follows
    the columns."""
    columns: dict[str, str] = {}
    """Role → column where detection would err; roles: problem, gold, solution, thinking,
    solve_rate, verified, id."""
    tier: Literal["easy", "medium", "hard"] | None = None
    """Difficulty of the whole source; null computes it from a solve rate, if there is one."""
    weight: float = Field(default=1.0, gt=0)
    """Share of the token budget relative to the other sources."""

    @field_validator("columns")
    @classmethod
    def _known_roles(cls, columns: dict[str, str]) -> dict[str, str]:
        unknown = sorted(columns.keys() - set(COLUMN_ROLES))
        if unknown:
            raise ValueError(f"unknown role {unknown[0]}; roles: {', '.join(COLUMN_ROLES)}")
        return columns


class DataParams(Section):
    """The reasoning traces and the problems that measure the result."""

    sources: list[str | SourceParams] = Field(min_length=1)
    """Where the training rows come from, in order."""
    panel: str = Field(min_length=1)
    """Evaluation problems: a file, `embedded`, or `holdout` (taken from the data)."""
    embedded_rows: int = Field(ge=50)
    """Rows that the embedded generator writes; ignored for other sources."""
    embedded_seed: int = Field(ge=0)
    """Seed of the embedded generator."""

    def described(self) -> list[SourceParams]:
        """The sources in their long form."""
        return [
            one if isinstance(one, SourceParams) else SourceParams(path=one) for one in self.sources
        ]


class ExecutorParams(Section):
    """How the corpus stages spread their work; nothing here changes a result."""

    backend: Literal["processes", "ray"]
    """Processes of this machine, or tasks of a Ray cluster that shares this folder."""
    workers: int | None = Field(default=None, ge=1)
    """Shards in work at a time; null takes every core of the machine or the cluster."""
    address: str
    """Address of the Ray cluster; `auto` finds the running one."""
    shard_mib: float = Field(gt=0)
    """Size in MiB of an input shard, the unit of restart."""
    row_seconds: float = Field(gt=0)
    """Seconds of processor time a row may take (ten times as long if it only waits); one
    that takes more is dropped and its worker ended."""
    worker_gib: float = Field(ge=0.5)
    """Memory in GiB that a worker may add, at least 0.5; a row that needs more is dropped."""


class FilterParams(Section):
    """Which rows are worth learning from."""

    english_only: bool
    """Drop rows with non-Latin scripts, foreign function words or switched languages."""
    max_unreadable_share: float = Field(ge=0, le=1)
    """More unreadable rows than this share of a file stops the run."""
    min_solution_characters: int = Field(ge=0)
    """A shorter reply states an answer without reasoning and is dropped."""
    max_reply_characters: int | None = Field(default=None, ge=1)
    """A longer reply, reasoning included, is dropped; null sets no limit."""
    cut_after_answer: bool
    """Cut what a reply says after its final answer; every cut is counted."""
    max_repetition_share: float = Field(gt=0, le=1)
    """A reply with more of its text in one repeated loop is dropped."""
    canned_problems: int = Field(ge=2)
    """A reply worded alike for so many different problems counts as canned."""
    early_answer_share: float = Field(ge=0, lt=1)
    """Reasoning that states the answer within this first share of itself quotes it."""
    flagged: Verdict
    """What becomes of rows that look like cheating: canned, early or unreasoned answers."""
    gold_conflict: Literal["drop", "majority"]
    """Copies of a problem with different answers: drop all, or keep the majority's."""
    near_copy_similarity: float = Field(gt=0, le=1)
    """Problems at least so alike (Jaccard of word 3-grams), numbers equal, are one problem."""


class HoldoutParams(Section):
    """Problems that are kept out of training, by hash of the problem, source by source."""

    problems: int = Field(ge=0)
    """Problems for the self-evaluation, over all sources."""
    reinforcement_share: float = Field(ge=0, lt=1)
    """Share of the problems with a stated answer reserved for later reinforcement learning."""
    seed: int = Field(ge=0)
    """Changes which problems are taken."""
    earlier: list[str]
    """Files of problems that earlier runs held out; they are never trained."""


class SemanticParams(Section):
    """The search for protected problems in other words, by sentence embeddings."""

    model: str | None = Field(default=None, min_length=1)
    """Folder of a sentence-embedding model, `embedded` (all-MiniLM-L6-v2), or null: no search."""
    min_cosine: float = Field(gt=0, lt=1)
    """Pairs below this similarity are not even recorded."""
    neighbours: int = Field(ge=1)
    """Nearest problems of each protected set that are recorded for a training problem."""
    device: Literal["auto", "cpu", "cuda"]
    """Where embeddings are computed."""


class PolicyParams(Section):
    """What becomes of a training problem of each class of contamination."""

    copy_: Verdict = Field(alias="copy")
    """The same problem, or the same set-up with another question."""
    edited: Verdict
    """The same wording with other numbers or symbols."""
    paraphrase: Verdict
    """The same problem in other words."""
    review: Verdict
    """Suspicious, below what is certain: listed for a person."""


class DecontaminateParams(Section):
    """What must not be learnt."""

    protected: list[str]
    """Files of protected problems, besides the panel, which always is one."""
    ngram_words: int = Field(ge=3)
    """Length in words of an overlap that counts as evidence (13 is the custom)."""
    boilerplate_share: float = Field(gt=0, le=1)
    """An n-gram in more than this share of training problems is no evidence."""
    paraphrase_cosine: float = Field(gt=0, le=1)
    """Embeddings at least so alike prove a paraphrase; set for all-MiniLM-L6-v2."""
    review_cosine: float = Field(gt=0, le=1)
    """Embeddings at least so alike are listed for review; set for all-MiniLM-L6-v2."""
    policy: PolicyParams
    """What becomes of each class."""


class SelectParams(Section):
    """Which of the clean rows are trained within the token budget."""

    policy: Literal["shortest_correct", "first", "all", "diverse"]
    """Order among the traces of a problem; `diverse` also spreads over tiers and topics."""
    max_traces_per_problem: int = Field(ge=1)
    """Upper limit a problem, near copies included; ignored by policy `all`."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest prompt and trace in tokens, below the sequence length; null sets none."""
    solve_rate: list[float] | None = Field(default=None, min_length=2, max_length=2)
    """Band [least, most] of problems with a known solve rate; null takes all."""
    tier_shares: dict[Literal["easy", "medium", "hard", "unknown"], float] | None = None
    """Wanted shares of the token budget by tier; null takes them as they come."""
    token_budget: int | None = Field(default=None, ge=1)
    """Unique tokens to keep; null takes the plan's figure."""
    seed: int = Field(ge=0)
    """Order in which problems enter the budget."""

    @field_validator("solve_rate")
    @classmethod
    def _a_band(cls, band: list[float] | None) -> list[float] | None:
        if band is not None and not 0 <= band[0] <= band[1] <= 1:
            raise ValueError("must be [least, most] with 0 <= least <= most <= 1")
        return band

    @field_validator("tier_shares")
    @classmethod
    def _some_tier(cls, shares: dict[str, float] | None) -> dict[str, float] | None:
        if shares is not None and (min(shares.values(), default=0) < 0 or not any(shares.values())):
            raise ValueError("shares must not be negative, and one must be positive")
        return shares
