"""How often the data are handed out: passes per tier and source, tokens per stage. No torch.

Counted bin by bin from what the sampler hands out, so the figures are exact, also where
a pass is not complete. The worker says before the first step what is planned; record.py
writes what was planned and what was done into train.json. Sources come from
work/tokenize/documents.jsonl.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.base.curriculum import Curriculum, bin_order
from pipeline.base.errors import UserError
from pipeline.learning.data import PackedData
from pipeline.learning.job import Job
from pipeline.learning.schedule import Replan, stage_starts, total_steps

Ints = npt.NDArray[np.int64]
DIGITS = 4
"""Decimals of the passes in train.json."""


def times_handed_out(data: PackedData, curriculum: Curriculum, taken: Ints) -> Ints:
    """How often each bin was handed out, int64 [S].

    Args:
        taken: bins that each bucket has handed out, int64 [buckets].
    """
    times = np.zeros(len(data), dtype=np.int64)
    for number, (bucket, count) in enumerate(zip(data.buckets, taken.tolist(), strict=True)):
        if count:
            turns, begun = divmod(count, bucket.bins)
            opened = bin_order(curriculum.seed, number, turns, bucket.bins)[:begun]
            times[bucket.first : bucket.first + bucket.bins] = turns
            times[bucket.first + opened] += 1
    return times


def passes(labels: Iterable[str], held: Ints, handed: Ints) -> dict[str, float]:
    """Label → tokens handed out ÷ tokens held, of all parts with this label.

    Args:
        held: tokens of each part, int64 [parts].
        handed: tokens that each part has given, repeats included, int64 [parts].
    """
    names = list(labels)
    known = list(dict.fromkeys(names))
    places = {name: place for place, name in enumerate(known)}
    index = np.fromiter((places[name] for name in names), dtype=np.int64, count=len(names))
    given = np.bincount(index, weights=handed, minlength=len(known))
    whole = np.bincount(index, weights=held, minlength=len(known))
    return {
        name: round(float(given[place] / max(1.0, whole[place])), DIGITS)
        for name, place in places.items()
    }


class Account:
    """What a run takes from the data, by stage, tier and source.

    Args:
        starts: first step of every stage.
        steps: of the whole run.
    """

    def __init__(
        self, data: PackedData, curriculum: Curriculum, starts: Sequence[int], steps: int
    ) -> None:
        self.data, self.stages = data, curriculum.stages
        self.borders = [*starts, steps]
        self.reached = [
            times_handed_out(data, curriculum, curriculum.taken(border, starts))
            for border in self.borders
        ]
        self.times = self.reached[-1]

    def of_stages(self) -> list[dict[str, Any]]:
        """Steps and tokens of every stage; the tokens add up to those of the run."""
        sums = [int((times * self.data.sizes).sum()) for times in self.reached]
        return [
            {
                "sequence_tokens": stage.sequence_tokens,
                "share": round(stage.share, 6),
                "steps": end - start,
                "tokens": after - before,
            }
            for stage, (start, end), (before, after) in zip(
                self.stages, pairwise(self.borders), pairwise(sums), strict=True
            )
        ]

    def of_tiers(self) -> dict[str, float]:
        """Tier → passes."""
        firsts = [bucket.first for bucket in self.data.buckets if bucket.bins]
        held = np.add.reduceat(self.data.sizes, firsts)
        handed = np.add.reduceat(self.data.sizes * self.times, firsts)
        return passes((one.tier for one in self.data.buckets if one.bins), held, handed)

    def of_sources(self, sources: Sequence[str]) -> dict[str, float]:
        """Source → passes.

        Args:
            sources: of every document, in the order in which they are stored.
        """
        documents = np.diff(self.data.first_document)
        handed = self.data.lengths * np.repeat(self.times, documents)
        found = passes(sources, self.data.lengths, handed)
        return dict(sorted(found.items()))


def sources_of(data: PackedData, folder: Path) -> list[str]:
    """The source of every document, from documents.jsonl.

    Raises:
        UserError: the file is missing or speaks of other documents.
    """
    path = folder / "documents.jsonl"
    names: dict[str, int] = {}
    index = array("i")
    try:
        with path.open(encoding="utf-8") as stream:
            index.extend(
                names.setdefault(json.loads(line)["source"], len(names)) for line in stream
            )
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"{path}: cannot be read ({error})", "Run `dvc repro -f tokenize`."
        ) from None
    if len(index) != len(data.lengths):
        raise UserError(
            f"{path}: {len(index)} documents, the arrays hold {len(data.lengths)}",
            "Run `dvc repro -f tokenize`.",
        )
    known = list(names)
    return [known[one] for one in index]


def account_of(job: Job, data: PackedData, journal: Sequence[Replan]) -> Account:
    """The account of a whole run with these re-plans."""
    curriculum = Curriculum(job.stages, data.buckets, job.tokens_per_step, job.params.seed)
    starts = stage_starts(journal, [stage.share for stage in job.stages])
    return Account(data, curriculum, starts, total_steps(journal))


def planned_sentence(job: Job, data: PackedData, journal: Sequence[Replan]) -> str:
    """Stages and passes of the run as it is planned now, for the log."""
    account = account_of(job, data, journal)
    stages = ", ".join(
        f"{one['steps']:,} steps of {one['sequence_tokens']:,} tokens"
        for one in account.of_stages()
    )
    tiers = ", ".join(f"{tier} {count:.2f}" for tier, count in account.of_tiers().items())
    return f"stages: {stages}; passes: {tiers}"
