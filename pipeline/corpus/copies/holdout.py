"""Which problems are kept out of training: for the self-evaluation, for later, since earlier.

Called by `python -m pipeline.filter` with one entry for every row; reads and writes
nothing. The unit is the group, a problem with its near copies, so that no problem and
no near copy of one is on two sides. A group has one fate:

train    its rows may be learnt from.
panel    one problem of it is asked in the evaluations.
reserve  kept for reinforcement learning after this run; only groups with a stated answer.
earlier  an earlier run held out one of its problems; neither trained nor chosen again.

A group enters the reserve when its own hash lies below the wanted share, whatever else
the data hold. The panel has a fixed size: each source gives the smallest hashes among
its problems, in proportion to what it has, so that new rows move a group only at the edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.base.errors import UserError
from pipeline.corpus.copies.keyed_hash import keyed_hash, rank_in_run, run_starts
from pipeline.corpus.selection.quotas import share_out

TRAIN, PANEL, RESERVE, EARLIER = 0, 1, 2, 3
FATES = ("train", "panel", "reserve", "earlier")
"""Names of the fates, by number."""

Ids = NDArray[np.uint64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class HoldoutRows:
    """What the choice needs to know of every row; all of shape (rows,)."""

    problem: Ids
    """Number of the problem's id (keyed_hash.id_number)."""
    group: Ids
    """The same for the smallest id among the problem and its near copies."""
    source: NDArray[np.int32]
    """0-based number of the row's source; of no account for `earlier` rows."""
    stated: Flags
    """The data set states an answer that the grader can read."""
    sound: Flags
    """The row may be trained: no rule has dropped it."""
    earlier: Flags
    """The problem was held out by an earlier run; rows of those files count as such."""


@dataclass(frozen=True)
class Holdout:
    """The fate of every group; all of shape (groups,)."""

    groups: Ids
    """In ascending order."""
    fates: NDArray[np.uint8]
    asked: Ids
    """The problem that stands for the group in panel or reserve; 0 if no row is sound."""

    def fate_of(self, group: Ids) -> NDArray[np.uint8]:
        """Fates of the given groups, all of which must be known; shape as `group`."""
        found: NDArray[np.uint8] = self.fates[np.searchsorted(self.groups, group)]
        return found

    def problems(self, fate: int) -> Ids:
        """One problem of every group with this fate, in ascending order."""
        return np.sort(self.asked[self.fates == fate])

    def counts(self) -> dict[str, int]:
        """Groups by the name of their fate."""
        numbers = np.bincount(self.fates, minlength=len(FATES))
        return {name: int(number) for name, number in zip(FATES, numbers, strict=True)}


@dataclass(frozen=True)
class _Groups:
    """Groups with what decides about them; all of shape (groups,)."""

    ids: Ids
    asked: Ids
    source: NDArray[np.int32]
    stated: Flags
    free: Flags
    """Has a sound row and no earlier one."""


def choose_holdout(
    rows: HoldoutRows, problems: int, reinforcement_share: float, seed: int
) -> Holdout:
    """Give every group its fate; the order of the rows does not matter.

    Args:
        problems: groups to put into the panel.
        reinforcement_share: share of the groups with a stated answer to reserve.
        seed: changes which ones are taken.

    Raises:
        UserError: fewer than one problem would be left to train on.
        ValueError: a problem belongs to two groups.
    """
    groups = _gather(rows, seed)
    limit = np.uint64(int(reinforcement_share * 2**64))
    reserve = groups.free & groups.stated & (keyed_hash(groups.ids, "reserve", seed) < limit)
    usable = groups.free & ~reserve
    _require_rest(int(groups.free.sum()), int(usable.sum()), problems, reinforcement_share)
    fates = np.zeros(len(groups.ids), dtype=np.uint8)
    fates[_members(rows.group[rows.earlier], groups.ids)] = EARLIER
    fates[reserve] = RESERVE
    fates[_panel(groups, usable, problems, seed)] = PANEL
    return Holdout(groups.ids, fates, groups.asked)


def _members(wanted: Ids, ids: Ids) -> NDArray[np.intp]:
    return np.searchsorted(ids, wanted)


def _require_rest(free: int, usable: int, problems: int, share: float) -> None:
    if free and not usable:
        raise UserError(
            f"holdout.reinforcement_share is {share} and reserves all of {free} usable problems",
            "Lower it so that some are left to train on.",
        )
    if problems >= usable > 0:
        raise UserError(
            f"holdout.problems is {problems}, the data have {usable} usable problems",
            "Lower it so that some are left to train on.",
        )


def _gather(rows: HoldoutRows, seed: int) -> _Groups:
    """Rows → groups. A group is stood for by a problem with a stated answer, if it has one."""
    ids, inverse = np.unique(rows.group, return_inverse=True)
    inverse = inverse.astype(np.int32)
    _require_one_group(rows.problem, inverse)
    sound = np.flatnonzero(rows.sound & ~rows.earlier)
    drawn = keyed_hash(rows.problem[sound], "asked", seed)
    keys = (rows.source[sound], drawn, ~rows.stated[sound], inverse[sound])
    best = sound[np.lexsort(keys)]
    best = best[run_starts(inverse[best])]
    asked = np.zeros(len(ids), dtype=np.uint64)
    source = np.zeros(len(ids), dtype=np.int32)
    stated, free = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_)
    places = inverse[best]
    asked[places], source[places] = rows.problem[best], rows.source[best]
    stated[places], free[places] = rows.stated[best], True
    free[inverse[rows.earlier]] = False
    return _Groups(ids, asked, source, stated, free)


def _require_one_group(problem: Ids, inverse: NDArray[np.signedinteger[Any]]) -> None:
    order = np.argsort(problem, kind="stable")
    same = ~run_starts(problem[order])[1:]
    if np.any(inverse[order][1:][same] != inverse[order][:-1][same]):
        raise ValueError("a problem belongs to two groups of near copies")


def _panel(groups: _Groups, usable: Flags, problems: int, seed: int) -> NDArray[np.intp]:
    """Places of the panel's groups: those with a stated answer first, then the others."""
    drawn = keyed_hash(groups.ids, "panel", seed)
    stated = _smallest(np.flatnonzero(usable & groups.stated), groups.source, drawn, problems)
    others = np.flatnonzero(usable & ~groups.stated)
    rest = _smallest(others, groups.source, drawn, problems - len(stated))
    return np.concatenate([stated, rest])


def _smallest(
    places: NDArray[np.intp], source: NDArray[np.int32], drawn: Ids, count: int
) -> NDArray[np.intp]:
    """`count` of the places, from every source in proportion, its smallest hashes."""
    order = places[np.lexsort((drawn[places], source[places]))]
    quotas = _per_source(np.bincount(source[order]), count)
    chosen = rank_in_run(run_starts(source[order])) < quotas[source[order]]
    return order[chosen]


def _per_source(supply: Sequence[int] | NDArray[np.intp], count: int) -> NDArray[np.int64]:
    has = [int(one) for one in supply]
    return np.asarray(share_out(count, has, has), dtype=np.int64)
