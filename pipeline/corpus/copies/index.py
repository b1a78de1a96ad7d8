"""The reduction: what only all rows together show, decided in numbers.

Called by `python -m pipeline.filter` between judge.py and settle.py. Reads the entries of
all shards a column at a time, and the few texts that a decision hangs on; decisions.py
writes what it finds. Nothing depends on where shards are cut: an entry's number is its
place in the order of the files and their rows.

Memory: below 200 bytes an entry (docs/data.md has the sum); no text is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.base.params_corpus import FilterParams
from pipeline.base.records import excerpt
from pipeline.corpus.copies.decisions import (
    CLASH,
    CONTRADICTED,
    DROPPED_CANNED,
    DUPLICATE,
    KEPT,
    OUTVOTED,
    Decided,
    Entries,
    HoldoutWish,
    hold_out,
    write_decisions,
)
from pipeline.corpus.copies.golds import (
    CONFLICT,
    MINORITY,
    GoldVerdicts,
    Places,
    Statement,
    Statements,
    settle_golds,
)
from pipeline.corpus.copies.keyed_hash import run_starts
from pipeline.corpus.copies.near_copies import Clusters, cluster, locate
from pipeline.corpus.copies.shard_store import Folders, TextWriter

DETAILS = "contradictions"
Verdicts = NDArray[np.uint8]


@dataclass(frozen=True)
class Reduction:
    """What the reduction tells funnel.json of the whole set."""

    entries: int
    problems: int
    clusters: Clusters
    golds: GoldVerdicts

    def summary(self) -> dict[str, Any]:
        """Its part of funnel.json: near copies and contradictions, with examples."""
        sizes = np.bincount(self.clusters.root)
        return {
            "problems": self.problems,
            "near_copies": {
                "groups": int((sizes > 1).sum()),
                "problems": int(sizes[sizes > 1].sum()),
                "examples": [
                    {"first": excerpt(one), "second": excerpt(other), "similarity": likeness}
                    for one, other, likeness in self.clusters.examples
                ],
            },
            "gold_conflicts": {**self.golds.report, "examples": self.golds.examples},
        }


@dataclass(frozen=True)
class JudgedShards:
    """The folders of all judged shards, in order, and where their rows come from."""

    paths: Sequence[Path]
    files: Sequence[int]
    """Number of each shard's file."""
    sources: Sequence[int]
    """Number of each shard's source."""
    earlier: Path
    """Folder of the problems that earlier runs held out (judge.py); it has no entries."""


def reduce_entries(
    judged: JudgedShards, out: Path, settings: FilterParams, wish: HoldoutWish
) -> Reduction:
    """Decide on every survivor of every shard.

    Args:
        out: gets the decisions and the texts of contradictions.

    Raises:
        UserError: the hold-out would leave nothing to train on.
    """
    out.mkdir(parents=True, exist_ok=True)
    folders = Folders([*judged.paths, judged.earlier])
    located = locate(folders)
    clusters = cluster(folders, located, settings.near_copy_similarity)
    entries = _load(folders, clusters.root[np.searchsorted(located.ids, folders.column("problem"))])
    first = first_copies(folders, entries.survives)
    verdict = np.where(first >= 0, DUPLICATE, KEPT).astype(np.uint8)
    _mark_clashes(folders, entries, np.asarray(judged.files), verdict)
    details = TextWriter(out, DETAILS)
    golds = _contradictions(folders, entries, first, len(located.ids), settings, details)
    details.close()
    verdict[(verdict == KEPT) & (golds.outcome == CONFLICT)] = CONTRADICTED
    verdict[(verdict == KEPT) & (golds.outcome == MINORITY)] = OUTVOTED
    canned = find_canned(folders, entries, verdict, settings.canned_problems)
    if settings.flagged == "drop":
        verdict[canned] = DROPPED_CANNED
    known = np.load(judged.earlier / "problems.npy")["problem"]
    home = located.ids[clusters.root[np.searchsorted(located.ids, known)]]
    source = np.asarray(judged.sources, dtype=np.int32)
    ids = located.ids
    asked = hold_out(folders, entries, ids, golds.teller, verdict, source, (known, home), wish)
    write_decisions(folders, entries, ids, Decided(verdict, asked, canned, first, golds), out)
    return Reduction(len(verdict), len(ids), clusters, golds)


def _load(folders: Folders, group: Places) -> Entries:
    return Entries(
        np.concatenate([[0], np.cumsum(folders.counts("entries.npy"))]),
        group,
        folders.column("place") >= 0,
        folders.column("stated") == 1,
    )


def _heads(starts: NDArray[np.bool_]) -> Places:
    """For every place of sorted keys the place where its run begins."""
    places = np.arange(len(starts), dtype=np.int32)
    return np.maximum.accumulate(np.where(starts, places, np.int32(0)))


def first_copies(folders: Folders, survives: NDArray[np.bool_]) -> Places:
    """Entry of the first row with the same texts, -1 for that row itself; shape [entries]."""
    found = np.full(len(survives), -1, dtype=np.int32)
    places = np.flatnonzero(survives).astype(np.int32)
    first, second = folders.column("digest_a")[places], folders.column("digest_b")[places]
    order = np.lexsort((second, first)).astype(np.int32)
    starts = run_starts(first[order]) | run_starts(second[order])
    del first, second
    heads = places[order[_heads(starts)]]
    found[places[order[~starts]]] = heads[~starts]
    return found


def _mark_clashes(
    folders: Folders, entries: Entries, file_of: NDArray[Any], verdict: Verdicts
) -> None:
    """Rows whose id an earlier row of the file has given to another problem.

    If most ids of a file clash, the field is no identifier, and nothing follows.
    """
    row_id = folders.column("row_id")
    places = np.flatnonzero((verdict == KEPT) & entries.survives & (row_id > 0)).astype(np.int32)
    row_id = row_id[places]
    order = np.argsort(row_id, kind="stable").astype(np.int32)
    problem = folders.column("problem")[places][order]
    differs = problem != problem[_heads(run_starts(row_id[order]))]
    del row_id, problem
    file = file_of[entries.shard_of(places)].astype(np.int32)
    clashes = np.zeros(len(places), dtype=np.bool_)
    clashes[order] = differs
    counted, clashing = np.bincount(file), np.bincount(file[clashes], minlength=len(file_of))
    identifies = clashing[: len(counted)] * 2 <= counted
    verdict[places[clashes & identifies[file]]] = CLASH


def _contradictions(
    folders: Folders,
    entries: Entries,
    first: Places,
    groups: int,
    settings: FilterParams,
    details: TextWriter,
) -> GoldVerdicts:
    """Compare the answers of every group.

    A row has one vote, however many replies it lists; a copy of a row with the same
    answer has none.
    """
    gold = folders.column("gold")
    votes = folders.column("votes") == 1
    copies = np.flatnonzero(first >= 0)
    votes[copies] &= gold[copies] != gold[first[copies]]

    def text(place: int) -> Statement:
        shard = int(entries.shard_of(np.array([place]))[0])
        row = folders.entry(shard, place - int(entries.starts[shard]))
        gold, _, origin = folders.text("golds", shard, int(row["gold_at"])).partition("\0")
        return Statement(gold, origin, folders.text("problems", shard, int(row["problem_at"])))

    said = Statements(entries.group, gold, entries.stated, votes)
    return settle_golds(said, groups, settings.gold_conflict, text, details)


def find_canned(
    folders: Folders, entries: Entries, verdict: Verdicts, least: int
) -> NDArray[np.bool_]:
    """Replies that are worded alike for `least` different problems or more; shape [entries]."""
    template = folders.column("template")
    places = np.flatnonzero((verdict == KEPT) & entries.survives).astype(np.int32)
    template, group = template[places], entries.group[places]
    order = np.lexsort((group, template)).astype(np.int32)
    starts = run_starts(template[order])
    distinct = starts | run_starts(group[order])
    run = np.cumsum(starts, dtype=np.int32) - np.int32(1)
    problems = np.bincount(run[distinct])
    canned = np.zeros(len(verdict), dtype=np.bool_)
    if len(problems):
        canned[places[order[problems[run] >= least]]] = True
    return canned
