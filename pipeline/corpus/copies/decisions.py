"""What the reduction decides on every survivor, and the file in which it says so.

Called by index.py, which finds the verdicts, and by settle.py, which reads them back:
decisions OUT/NNNNN.npy, one `DECISION` for every line of the shard's survivors.jsonl.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.corpus.copies.golds import GoldVerdicts, Places
from pipeline.corpus.copies.holdout import PANEL, RESERVE, Holdout, HoldoutRows, choose_holdout
from pipeline.corpus.copies.shard_store import Folders, Unsigned

KEPT, HELD, RESERVED, HELD_EARLIER = range(4)
"""Verdicts in the order of the fates of holdout.py; these may still fail another's answer."""
DUPLICATE, CLASH, CONTRADICTED, OUTVOTED, DROPPED_CANNED = range(4, 9)
NONE = 0xFFFFFFFF
"""In place of a number: there is none."""

DECISION = np.dtype(
    [
        ("group", "<u8"),
        ("shard", "<u4"),  # DUPLICATE: shard of the first copy …
        ("at", "<u4"),  # … and its line; CONTRADICTED, OUTVOTED: number of the text
        ("gold_shard", "<u4"),  # where the answer that is stated for the group lies, or NONE
        ("gold_at", "<u4"),
        ("verdict", "u1"),
        ("canned", "u1"),  # 1: other problems have replies worded alike
        ("asked", "u1"),  # 1: this row's problem goes into panel or reserve
        ("stated", "u1"),  # 1: the row's own answer is stated
    ]
)


@dataclass(frozen=True)
class HoldoutWish:
    """How many problems to hold out."""

    problems: int
    reinforcement_share: float
    seed: int


@dataclass(frozen=True)
class Entries:
    """Columns that the whole reduction needs; of shape [entries] but for `starts`."""

    starts: NDArray[np.int64]
    """First entry of every shard, then the number of entries; shape [shards + 1]."""
    group: Places
    """Place of the group's smallest id among all problem ids."""
    survives: NDArray[np.bool_]
    stated: NDArray[np.bool_]

    def shard_of(self, places: NDArray[Any]) -> NDArray[np.int64]:
        """Numbers of the shards in which entries lie."""
        found: NDArray[np.int64] = np.searchsorted(self.starts, places, side="right") - 1
        return found


@dataclass(frozen=True)
class Decided:
    """The outcome of all steps; `golds` of its own shapes, the others of [entries]."""

    verdict: NDArray[np.uint8]
    asked: NDArray[np.bool_]
    canned: NDArray[np.bool_]
    first: Places
    golds: GoldVerdicts


def hold_out(
    folders: Folders,
    entries: Entries,
    ids: Unsigned,
    teller: Places,
    verdict: NDArray[np.uint8],
    source_of: NDArray[np.int32],
    earlier: tuple[Unsigned, Unsigned],
    wish: HoldoutWish,
) -> NDArray[np.bool_]:
    """Put the fate of every group into `verdict`; True for rows whose problem is asked.

    Args:
        ids: all problem ids in order.
        teller: for each group the entry that states its answer, or a negative number.
        source_of: number of each shard's source.
        earlier: problems that earlier runs held out, and their groups' ids.
    """
    places = np.flatnonzero((verdict == KEPT) & entries.survives).astype(np.int32)
    problem, group = folders.column("problem")[places], entries.group[places]
    known, home = earlier
    none, all_ = np.zeros(len(known), dtype=np.bool_), np.ones(len(known), dtype=np.bool_)
    rows = HoldoutRows(
        np.concatenate([problem, known]),
        np.concatenate([ids[group], home]),
        np.concatenate([source_of[entries.shard_of(places)], none.astype(np.int32)]),
        np.concatenate([teller[group] >= 0, none]),
        np.concatenate([np.ones(len(places), dtype=np.bool_), none]),
        np.concatenate([np.zeros(len(places), dtype=np.bool_), all_]),
    )
    held = choose_holdout(rows, wish.problems, wish.reinforcement_share, wish.seed)
    del rows
    fates = held.fate_of(ids[group])
    verdict[places] = fates
    asked = np.zeros(len(verdict), dtype=np.bool_)
    asked[places[_first_asked(held, fates, problem)]] = True
    return asked


def _first_asked(held: Holdout, fates: NDArray[np.uint8], problem: Unsigned) -> NDArray[np.intp]:
    """Places of the first row of every problem that is asked or reserved."""
    wanted = np.concatenate([held.problems(PANEL), held.problems(RESERVE)])
    rows = np.flatnonzero((fates == PANEL) | (fates == RESERVE))
    rows = rows[np.isin(problem[rows], wanted)]
    return rows[np.unique(problem[rows], return_index=True)[1]]


def write_decisions(
    folders: Folders, entries: Entries, ids: Unsigned, decided: Decided, out: Path
) -> None:
    """Write the decisions of every shard that has been judged."""
    place, gold_at = folders.column("place"), folders.column("gold_at")
    for shard in range(len(folders.paths)):
        here = slice(int(entries.starts[shard]), int(entries.starts[shard + 1]))
        rows = np.arange(here.start, here.stop)[entries.survives[here]]
        found = np.zeros(len(rows), dtype=DECISION)
        group, verdict = entries.group[rows], decided.verdict[rows]
        found["group"], found["verdict"] = ids[group], verdict
        found["asked"], found["canned"] = decided.asked[rows], decided.canned[rows]
        found["stated"] = entries.stated[rows]
        first = decided.first[rows]
        copy = first >= 0
        found["shard"][copy] = entries.shard_of(first[copy])
        found["at"][copy] = place[first[copy]]
        argued = (verdict == CONTRADICTED) | (verdict == OUTVOTED)
        found["at"][argued] = decided.golds.detail[rows[argued]]
        teller = decided.golds.teller[group]
        told = teller >= 0
        found["gold_shard"] = found["gold_at"] = NONE
        found["gold_shard"][told] = entries.shard_of(teller[told])
        found["gold_at"][told] = gold_at[teller[told]]
        np.save(out / f"{shard:05d}.npy", found)
