"""Rows of all files → traces that follow every rule, in two passes.

Called by `python -m pipeline.filter`. The first pass reads and judges each row by
itself and writes the survivors to a scratch file; the second drops what only the
whole set can show (gold-conflict, id-clash, answers that another row proves wrong),
sets the hold-out apart and counts tokens. Memory holds hashes, not texts.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from pipeline.base.chat import Chat
from pipeline.base.grading import grade
from pipeline.base.progress import Progress
from pipeline.base.records import Dropped, Problem, Trace, problem_id
from pipeline.corpus.funnel import SourceTally, dropped_row
from pipeline.corpus.panels import choose_holdout
from pipeline.corpus.rules import Settings, first_fault
from pipeline.corpus.schemas import Candidate, read_candidates
from pipeline.corpus.sources import read_rows_of
from pipeline.corpus.strict_json import Row
from pipeline.corpus.text import RowFault

BATCH_ROWS = 256


@dataclass
class Index:
    """What the first pass remembers of the whole set."""

    golds: dict[str, str] = field(default_factory=dict)
    """Problem id → the first stated answer."""
    own_golds: dict[str, str] = field(default_factory=dict)
    """Problem id → the first answer that only a reply's own box gives."""
    conflicts: dict[str, str] = field(default_factory=dict)
    """Problem id → the two stated answers that differ."""
    own_conflicts: dict[str, str] = field(default_factory=dict)
    """The same for problems whose answer no row states."""
    seen: dict[bytes, str] = field(default_factory=dict)
    """Digest of problem, reasoning and reply → origin of the first copy."""
    unproven: set[int] = field(default_factory=set)
    """Places in the scratch file of traces whose gold is their own box."""
    ids: dict[tuple[str, str], str] = field(default_factory=dict)
    """(file, row id) → problem id of the first row that has it."""
    clashes: dict[int, str] = field(default_factory=dict)
    """Place in the scratch file → row id that another problem has too."""
    with_id: Counter[str] = field(default_factory=Counter)
    clashing: Counter[str] = field(default_factory=Counter)
    """File → rows with an id, and those of them that clash."""
    problems: set[str] = field(default_factory=set)

    def note_gold(self, key: str, gold: str, stated: bool) -> None:
        """Remember an answer, and whether it contradicts an earlier one."""
        golds = self.golds if stated else self.own_golds
        first = golds.setdefault(key, gold)
        if first != gold and not grade(f"\\boxed{{{gold}}}", first).correct:
            (self.conflicts if stated else self.own_conflicts)[key] = f"{first!r} and {gold!r}"

    def note_id(self, place: int, source: str, row_id: str, key: str) -> None:
        """Remember a row's id, and whether another problem has it."""
        if row_id:
            self.with_id[source] += 1
            if self.ids.setdefault((source, row_id), key) != key:
                self.clashing[source] += 1
                self.clashes[place] = row_id

    def is_identifier(self, source: str) -> bool:
        """Whether a file's ids tell problems apart; if most clash, they are something else."""
        return self.clashing[source] * 2 <= self.with_id[source]

    def conflict(self, key: str) -> str | None:
        """The answers between which this problem leaves one in doubt."""
        if key in self.golds:
            return self.conflicts.get(key)
        return self.own_conflicts.get(key)


@dataclass
class Intake:
    """Both passes over all files of a run."""

    chat: Chat
    settings: Settings
    progress: Progress
    tallies: dict[str, SourceTally] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)
    panel: dict[str, Problem] = field(default_factory=dict)
    """Hold-out problems by id, in the order of the data."""
    index: Index = field(default_factory=Index)

    def first_pass(self, files: list[tuple[Path, str]]) -> Iterator[Trace]:
        """Yield every trace that follows the rules of rules.py; tokens are still 0."""
        place = 0
        for path, source in files:
            tally = self.tallies.setdefault(source, SourceTally(source))
            for row in read_rows_of(path, source):
                tally.note_row(row)
                for trace in self._judged(row, tally, place):
                    yield trace
                    place += 1
                self.progress.add(1, source)
            tally.require_readable(self.settings.filter.max_unreadable_share)

    def _judged(self, row: Row, tally: SourceTally, place: int) -> Iterator[Trace]:
        try:
            if row.fault is not None or row.value is None:
                raise row.fault or RowFault("not-object", "no value")
            candidates = read_candidates(row.value)
        except RowFault as fault:
            tally.read += 1
            self._drop(row.origin, row.source, fault, row.excerpt)
            return
        for number, candidate in enumerate(candidates):
            tally.read += 1
            tally.schemas[candidate.schema] += 1
            origin = f"{row.origin}[{number}]" if len(candidates) > 1 else row.origin
            trace = self._admit(candidate, row.source, origin, place)
            if trace is not None:
                yield trace
                place += 1

    def _admit(self, row: Candidate, source: str, origin: str, place: int) -> Trace | None:
        """The trace, unless a rule refuses it; its answer is noted in either case."""
        key = problem_id(row.problem)
        fault = first_fault(row, self.settings)
        stated = row.gold_from in ("stated", "reference")
        if stated and (fault is None or fault[0] in ("no-solution", "wrong-answer")):
            self.index.note_gold(key, row.gold, stated=True)
        if fault is None:
            text = f"{key}\0{row.thinking}\0{row.solution}"
            digest = hashlib.sha256(text.encode()).digest()[:16]
            first = self.index.seen.setdefault(digest, origin)
            if first != origin:
                fault = ("duplicate-row", f"same as {first}")
        if fault is not None:
            self._drop(origin, source, RowFault(*fault), row.problem)
            return None
        if not stated:
            self.index.note_gold(key, row.gold, stated=False)
            self.index.unproven.add(place)
        self.index.note_id(place, source, row.row_id, key)
        self.index.problems.add(key)
        return Trace(
            key,
            row.problem,
            row.gold,
            row.thinking,
            row.solution,
            source,
            origin,
            0,
            key,
            "unknown",
            None,
            1.0,
        )

    def _drop(self, origin: str, source: str, fault: RowFault, text: str) -> None:
        self.tallies[source].dropped[fault.reason] += 1
        self.dropped.append(dropped_row(origin, source, fault, text))

    def held_out(self, count: int, seed: int) -> set[str]:
        """Ids of `count` problems to hold out; those with a stated answer first."""
        index = self.index
        sound = {key for key in index.problems if index.conflict(key) is None}
        stated = {key for key in sound if key in index.golds}
        return choose_holdout(stated if len(stated) > count else sound, count, seed)

    def second_pass(self, survivors: Iterator[Trace], held: set[str]) -> Iterator[Trace]:
        """Yield the traces to keep, with their tokens counted."""
        rest = self._settled(survivors, held)
        while batch := list(islice(rest, BATCH_ROWS)):
            for trace, tokens in zip(batch, count_tokens(self.chat, batch), strict=True):
                self.tallies[trace.source].kept += 1
                yield replace(trace, tokens=tokens)

    def _settled(self, survivors: Iterator[Trace], held: set[str]) -> Iterator[Trace]:
        for place, trace in enumerate(survivors):
            fault = self._late_fault(place, trace)
            if fault is not None:
                self._drop(trace.origin, trace.source, fault, trace.problem)
                continue
            gold = self.index.golds.get(trace.id, trace.gold)
            if trace.id in held:
                self.tallies[trace.source].held_out += 1
                problem = Problem(trace.id, trace.problem, gold, trace.source, trace.origin)
                self.panel.setdefault(trace.id, problem)
                continue
            yield replace(trace, gold=gold) if place in self.index.unproven else trace

    def _late_fault(self, place: int, trace: Trace) -> RowFault | None:
        clash = self.index.clashes.get(place)
        if clash is not None and self.index.is_identifier(trace.source):
            return RowFault("id-clash", f"id {clash!r} belongs to another problem")
        conflict = self.index.conflict(trace.id)
        if conflict is not None:
            return RowFault("gold-conflict", conflict)
        gold = self.index.golds.get(trace.id)
        if place in self.index.unproven and gold is not None:
            verdict = grade(trace.solution, gold)
            if not verdict.correct:
                detail = f"{verdict.answer!r}, gold {gold!r} of another row"
                return RowFault("wrong-answer", detail)
        return None


def count_tokens(chat: Chat, traces: list[Trace]) -> list[int]:
    """Tokens of prompt, reply and end token of each trace, encoded many at a time."""
    texts = [chat.prompt_text(trace.problem) for trace in traces]
    texts += [chat.reply_text(trace.thinking, trace.solution) for trace in traces]
    lengths = [len(one.ids) for one in chat.tokenizer.encode_batch(texts, add_special_tokens=False)]
    half = len(traces)
    return [lengths[place] + lengths[half + place] + 1 for place in range(half)]
