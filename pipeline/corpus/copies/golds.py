"""Do the rows agree on the answer to a problem? Each group is settled by its answers.

Called by index.py; reads the stores of the judged shards, writes the texts of what it
found. A group is a problem with its near copies. Answers that data sets state count; the
boxes of the replies themselves only where nobody states one. Under `majority` the answer
of more than half of the rows that state one stands; answers that nobody states are
never voted on. Equal normalised answers are one by hash, the rest is graded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.base.grading import grade
from pipeline.base.records import excerpt
from pipeline.corpus.copies.keyed_hash import run_starts
from pipeline.corpus.copies.shard_store import TextWriter, Unsigned

AGREED, CONFLICT, MINORITY = 0, 1, 2
MOST_GRADED = 64
"""Different answers of one group that are graded against each other."""
EXAMPLES = 20
EXAMPLE_ANSWERS = 5
NO_ENTRY = -1

Places = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Statement:
    """An answer as it stands in the data."""

    gold: str
    origin: str
    problem: str
    """The problem, or the near copy, to which it is given."""


GoldText = Callable[[int], Statement]
"""Entry → what it says."""


@dataclass(frozen=True)
class Statements:
    """What every entry says; all of shape [entries]."""

    group: Places
    """Number of its group."""
    gold: Unsigned
    stated: NDArray[np.bool_]
    votes: NDArray[np.bool_]
    """Counts for a majority; a copy of a row with the same answer does not."""


@dataclass
class GoldVerdicts:
    """What follows for entries and groups."""

    outcome: NDArray[np.uint8]
    """AGREED, CONFLICT or MINORITY; shape [entries]."""
    detail: Places
    """Number of the text that says why, or NO_ENTRY; shape [entries]."""
    teller: Places
    """Entry whose stated answer stands for the group, or NO_ENTRY; shape [groups]."""
    report: dict[str, int] = field(default_factory=lambda: {"stated": 0, "own": 0, "majority": 0})
    """Groups in conflict: over stated answers, over replies' own; settled by a majority."""
    examples: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The entries of one group with one normalised answer."""

    entries: Places
    votes: int

    @property
    def first(self) -> int:
        return int(self.entries[0])


def settle_golds(
    said: Statements,
    groups: int,
    policy: Literal["drop", "majority"],
    gold_text: GoldText,
    details: TextWriter,
) -> GoldVerdicts:
    """Compare the answers of every group.

    Args:
        groups: numbers of groups are below it.
        gold_text: called for groups with several answers alone.
        details: gets one text for every group or answer that is dropped.
    """
    entries = len(said.group)
    stated_places = np.flatnonzero(said.stated).astype(np.int32)
    teller = _first_of_group(said.group, stated_places, groups)
    found = GoldVerdicts(
        np.zeros(entries, dtype=np.uint8), np.full(entries, NO_ENTRY, dtype=np.int32), teller
    )
    counted = said.stated | (teller[said.group] == NO_ENTRY)
    places = np.flatnonzero(counted).astype(np.int32)
    for answers in _contested(said, places):
        _settle(answers, said, policy, gold_text, details, found)
    return found


def _first_of_group(group: Places, places: Places, groups: int) -> Places:
    first = np.full(groups, np.iinfo(np.int32).max, dtype=np.int32)
    np.minimum.at(first, group[places], places)
    first[first == np.iinfo(np.int32).max] = NO_ENTRY
    return first


def _contested(said: Statements, places: Places) -> Iterator[list[_Answer]]:
    """The answers of each group that has several, in the order of their first entries."""
    order = places[np.lexsort((said.gold[places], said.group[places]))]
    group_starts = run_starts(said.group[order])
    starts = np.flatnonzero(group_starts | run_starts(said.gold[order])).astype(np.int32)
    new_group = np.flatnonzero(group_starts[starts]).astype(np.int32)
    last = np.append(new_group[1:], np.int32(len(starts)))
    stops = np.append(starts[1:], np.int32(len(order)))
    several = last - new_group > 1
    for begin, end in zip(new_group[several].tolist(), last[several].tolist(), strict=True):
        runs = [order[starts[i] : stops[i]] for i in range(begin, end)]
        answers = [_Answer(run, int(said.votes[run].sum())) for run in runs]
        yield sorted(answers, key=lambda one: one.first)


def _settle(
    answers: list[_Answer],
    said: Statements,
    policy: Literal["drop", "majority"],
    gold_text: GoldText,
    details: TextWriter,
    found: GoldVerdicts,
) -> None:
    stated = bool(said.stated[answers[0].first])
    voting = stated and policy == "majority"
    classes = _classes(answers, gold_text, stop_at=MOST_GRADED if voting else 2)
    if len(classes) == 1:
        return
    votes = [sum(one.votes for one in members) for members in classes]
    winner = votes.index(max(votes)) if voting and 2 * max(votes) > sum(votes) else None
    shown = [gold_text(members[0].first) for members in classes[:EXAMPLE_ANSWERS]]
    if winner is None:
        found.report["stated" if stated else "own"] += 1
        detail = " and ".join(f"{one.gold!r} ({one.origin})" for one in shown[:2])
        _mark(answers, CONFLICT, details.add(detail), found)
    else:
        found.report["majority"] += 1
        teller = classes[winner][0].first
        found.teller[said.group[teller]] = teller
        won = f"{votes[winner]} of {sum(votes)} rows say {gold_text(teller).gold!r}"
        losers = [members for members in classes if members is not classes[winner]]
        for members in losers:
            text = f"{gold_text(members[0].first).gold!r}; {won}"
            _mark(members, MINORITY, details.add(text), found)
    if len(found.examples) < EXAMPLES:
        found.examples.append(_example(stated, winner, shown, votes))


def _example(
    stated: bool, winner: int | None, shown: list[Statement], votes: list[int]
) -> dict[str, Any]:
    return {
        "stated": stated,
        "kept": winner is not None,
        "answers": [
            {
                "gold": excerpt(one.gold),
                "rows": count,
                "origin": one.origin,
                "problem": excerpt(one.problem),
            }
            for one, count in zip(shown, votes)
        ],
    }


def _classes(answers: list[_Answer], gold_text: GoldText, stop_at: int) -> list[list[_Answer]]:
    """Answers that the grader holds for equal together; the commonest are graded first.

    Args:
        stop_at: from so many classes on, every further answer is one of its own.
    """
    classes: list[list[_Answer]] = []
    heads: list[str] = []
    for answer in sorted(answers, key=lambda one: -one.votes):
        gold = gold_text(answer.first).gold if len(classes) < stop_at else None
        same = (
            place
            for place, head in enumerate(heads)
            if gold is not None and grade(f"\\boxed{{{gold}}}", head).correct
        )
        place = next(same, None)
        if place is not None:
            classes[place].append(answer)
            continue
        classes.append([answer])
        if gold is not None:
            heads.append(gold)
    return classes


def _mark(answers: list[_Answer], outcome: int, detail: int, found: GoldVerdicts) -> None:
    for answer in answers:
        found.outcome[answer.entries] = outcome
        found.detail[answer.entries] = detail
