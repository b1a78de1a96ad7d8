"""Reduce step of decontamination: from the suspects of all shards to what is dropped.

Reads suspects.jsonl and ids.npy of every shard twice, first to count boilerplate, then to
decide; holds a few bytes a row and what is dropped. Writes review.jsonl: one row for every
pair that a rule calls contaminated, whether dropped or kept. Called by
`python -m pipeline.decontaminate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from pipeline.base.artifacts import Json, read_jsonl
from pipeline.base.params_corpus import PolicyParams
from pipeline.base.records import excerpt
from pipeline.corpus.overlap.boilerplate import Boilerplate, Excuses
from pipeline.corpus.overlap.classes import CLASSES, Verdict
from pipeline.corpus.overlap.judgement import Pair
from pipeline.corpus.overlap.protected_index import ProtectedIndex
from pipeline.corpus.overlap.search import IDS, SUSPECTS, Suspicion
from pipeline.corpus.overlap.tally import Tally

UNJUDGED = "unjudged"
DIGITS = 3


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a training problem is dropped."""

    reason: str
    """overlap-copy, overlap-edited, overlap-paraphrase, overlap-review or unjudged."""
    detail: str
    sets: tuple[str, ...]
    """Sets of the pairs that decided."""


@dataclass
class Findings:
    """What the search found.

    Args:
        index: what is protected.
        policy: what becomes of each class.
        share: `decontaminate.boilerplate_share`.
        folders: scratch folders of the shards, in order.
    """

    index: ProtectedIndex
    policy: PolicyParams
    share: float
    folders: Sequence[Path]
    dropped: dict[int, Decision] = field(default_factory=dict)
    """Problem id → why it is dropped."""
    tally: Tally = field(default_factory=Tally)

    def suspicions(self) -> Iterator[Suspicion]:
        """Every suspicion, each problem once: the first shard's."""
        known: set[int] = set()
        for folder in self.folders:
            for line in read_jsonl(folder / SUSPECTS):
                one = Suspicion.from_json(line)
                if one.id not in known:
                    known.add(one.id)
                    yield one

    def count(self) -> Boilerplate:
        """How many different training problems there are and share each text."""
        ids = [np.load(folder / IDS) for folder in self.folders]
        problems = len(np.unique(np.concatenate(ids))) if ids else 0
        counts = Boilerplate(self.index, self.share, problems)
        for one in self.suspicions():
            counts.note(one.pairs)
        return counts

    def decide(self, excuses: Excuses) -> Iterator[Json]:
        """Decide on every suspect; yield the rows of review.jsonl."""
        actions = {
            name: getattr(self.policy, "copy_" if name == "copy" else name) for name in CLASSES
        }
        for one in self.suspicions():
            if one.poison:
                self.dropped[one.id] = Decision(UNJUDGED, one.poison, ())
                continue
            found = [(pair, excuses.verdict(pair)) for pair in one.pairs]
            proved = [(pair, verdict) for pair, verdict in found if verdict is not None]
            proved.sort(
                key=lambda two: (CLASSES.index(two[1].name), -strength(two[0]), two[0].item)
            )
            self.tally.note(self.index, one, proved)
            if not proved:
                continue
            action = "drop" if any(actions[v.name] == "drop" for _, v in proved) else "keep"
            if action == "drop":
                self.dropped[one.id] = self._decision(proved, actions)
            for pair, verdict in proved:
                yield self._row(one, pair, verdict, action)

    def _decision(self, proved: list[tuple[Pair, Verdict]], actions: dict[str, str]) -> Decision:
        name = next(v.name for _, v in proved if actions[v.name] == "drop")
        deciding = [(pair, verdict) for pair, verdict in proved if verdict.name == name]
        pair, verdict = deciding[0]
        sets = tuple(dict.fromkeys(self.index.items[one.item].source for one, _ in deciding))
        item = self.index.items[pair.item]
        more = f" (also in {', '.join(sets[1:])})" if len(sets) > 1 else ""
        said = f"{item.source} {item.origin}{more}: {', '.join(verdict.methods)}; "
        return Decision(f"overlap-{name}", said + excerpt(item.problem), sets)

    def _row(self, one: Suspicion, pair: Pair, verdict: Verdict, action: str) -> Json:
        item = self.index.items[pair.item]
        return {
            "id": f"{one.id:016x}",
            "class": verdict.name,
            "action": action,
            "methods": list(verdict.methods),
            "set": item.source,
            "place": item.origin,
            "protected_id": item.id,
            "scores": shown(pair),
            "training": one.problem,
            "protected": item.problem,
        }


def strength(pair: Pair) -> float:
    """Order of the pairs of one class."""
    return max(pair.scores.lcs, pair.scores.masked, pair.cosine or 0.0)


def shown(pair: Pair) -> Json:
    """The scores of a pair, rounded."""
    scores = {
        name: round(value, DIGITS) if isinstance(value, float) else value
        for name, value in asdict(pair.scores).items()
    }
    return scores if pair.cosine is None else {**scores, "cosine": pair.cosine}
