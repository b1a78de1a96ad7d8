"""First step over a shard: rows → traces that pass every rule, and what they say.

Run by `python -m pipeline.filter` on every shard at once. Writes into the shard's folder:

survivors.jsonl        Trace lines, in order; tokens are still 0
dropped.jsonl          Dropped lines, in order
order.npy              uint8, shape [candidates]: 1 a survivor, 0 a dropped one
entries.npy            what the reduction needs of them (shard_store.py)
problems.*, signatures.npy   the shard's distinct problems (near_copies.py)
golds.*                the answers that its rows give, each with the first origin
origins.*              origin and row id of every survivor
tally.json             counts (funnel.py)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from struct import Struct

import numpy as np

from pipeline.base.chat import Chat
from pipeline.base.grading import is_readable_gold, normalise_answer, unbox
from pipeline.base.params import FilterParams, PromptParams
from pipeline.base.params_corpus import SourceParams
from pipeline.base.records import Dropped, Problem, Trace, problem_id, to_line
from pipeline.corpus.copies.keyed_hash import id_number
from pipeline.corpus.copies.near_copies import Signer
from pipeline.corpus.copies.shard_store import ENTRY, TextWriter, hash64, hash128
from pipeline.corpus.execution.shards import Shard
from pipeline.corpus.execution.watch import POISON, Watch
from pipeline.corpus.funnel import SourceTally, dropped_row, write_tally
from pipeline.corpus.readers.sources import read_shard
from pipeline.corpus.rows.schemas import Candidate, read_candidates
from pipeline.corpus.rows.strict_json import Row
from pipeline.corpus.rows.text import RowFault
from pipeline.corpus.rules.catalogue import Judgement, Settings, judge_candidate, settings_for
from pipeline.corpus.rules.suspicion import reply_template

WITNESSES = frozenset(
    "no-solution labelled-wrong wrong-answer too-short too-long repetition-loop unreasoned"
    " early-answer".split()
)
"""Reasons that say nothing against the answer that the row states: it still counts."""
_ENTRY = Struct("<6Q2Ii2B")


@dataclass(frozen=True)
class JudgeJob:
    """What is the same for all shards."""

    base: str
    """Folder of the base."""
    prompt: PromptParams
    filter: FilterParams
    sources: tuple[SourceParams, ...]
    source_of: tuple[int, ...]
    """For every file the number of its source."""


@lru_cache(maxsize=1)
def _chat(base: str, prompt: str) -> Chat:
    return Chat(Path(base), PromptParams.model_validate_json(prompt))


def open_chat(base: str, prompt: PromptParams) -> Chat:
    """The base's tokenizer and template, read once in a process, not once a shard."""
    return _chat(base, prompt.model_dump_json())


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One candidate of a row with its place and what becomes of it."""

    origin: str
    judgement: Judgement | None
    dropped: Dropped | None


def judge_shard(job: JudgeJob, shard: Shard, folder: Path, watch: Watch) -> None:
    """Judge every row of a shard by itself."""
    source = job.sources[job.source_of[shard.entry]]
    settings = settings_for(open_chat(job.base, job.prompt), job.filter)
    desk = _Desk(folder, shard.source, source.weight, job.filter.near_copy_similarity)
    for row in read_shard(shard, watch):
        desk.tally.note_row(row)
        try:
            outcomes = _outcomes(row, source, settings)
        except MemoryError:
            outcomes = [_fallen(row, RowFault("memory", POISON["memory"]))]
        desk.take(outcomes)
        watch.done()
    watch.done(0)
    desk.close()


def _fallen(row: Row, fault: RowFault) -> _Outcome:
    """A row that cannot be judged."""
    return _Outcome(row.origin, None, dropped_row(row.origin, row.source, fault, row.excerpt))


def _outcomes(row: Row, source: SourceParams, settings: Settings) -> list[_Outcome]:
    try:
        if row.fault is not None or row.value is None:
            raise row.fault or RowFault("not-object", "no value")
        candidates = read_candidates(row.value, source)
    except RowFault as fault:
        return [_fallen(row, fault)]
    found = []
    for number, candidate in enumerate(candidates):
        origin = f"{row.origin}[{number}]" if len(candidates) > 1 else row.origin
        said = judge_candidate(candidate, settings)
        if said.fault is None:
            found.append(_Outcome(origin, said, None))
        else:
            gone = dropped_row(origin, row.source, RowFault(*said.fault), candidate.problem)
            found.append(_Outcome(origin, said, gone))
    return found


class _Desk:
    """The open files of a shard's folder."""

    def __init__(self, folder: Path, source: str, weight: float, similarity: float) -> None:
        self.tally = SourceTally(source)
        self._folder, self._weight = folder, weight
        self._survivors = (folder / "survivors.jsonl").open("wb")
        self._dropped = (folder / "dropped.jsonl").open("wb")
        self._signer = Signer(folder, similarity)
        self._golds = TextWriter(folder, "golds")
        self._origins = TextWriter(folder, "origins")
        self._gold_places: dict[tuple[str, int, bool], int] = {}
        self._order = bytearray()
        self._entries = bytearray()

    def take(self, outcomes: Iterable[_Outcome]) -> None:
        """Write what becomes of the candidates of one row."""
        votes = True
        for one in outcomes:
            self.tally.read += 1
            survives = one.dropped is None
            if one.judgement is not None:
                self._count(one.judgement)
                if survives or _is_witness(one.judgement):
                    self._enter(one.judgement.row, one.origin, survives, votes)
                    votes = False
            if one.dropped is not None:
                self.tally.drop(one.dropped)
                self._dropped.write(to_line(one.dropped))
            self._order.append(survives)

    def _count(self, said: Judgement) -> None:
        self.tally.schemas[said.row.schema] += 1
        self.tally.notes.update(said.notes)
        self.tally.flags.update(said.flags)

    def _enter(self, row: Candidate, origin: str, survives: bool, votes: bool) -> None:
        """Write a survivor, and what the reduction needs of any row."""
        key = problem_id(row.problem)
        stated = row.gold_from in ("stated", "reference")
        gold = hash64(normalise_answer(unbox(row.gold)))
        place = -1
        if survives:
            place = self._origins.add(f"{origin}\0{row.row_id}")
            self._survivors.write(to_line(self._trace(row, key, origin)))
        self._entries += _ENTRY.pack(
            id_number(key),
            *hash128(f"{key}\0{row.thinking}\0{row.solution}"),
            gold,
            hash64(f"{self.tally.source}\0{row.row_id}") if row.row_id and survives else 0,
            reply_template(row) if survives else 0,
            self._signer.place_of(key, row.problem),
            self._gold_place(key, gold, stated, f"{row.gold}\0{origin}"),
            place,
            stated,
            votes,
        )

    def _gold_place(self, key: str, gold: int, stated: bool, text: str) -> int:
        place = self._gold_places.get((key, gold, stated))
        if place is None:
            place = self._gold_places[key, gold, stated] = self._golds.add(text)
        return place

    def _trace(self, row: Candidate, key: str, origin: str) -> Trace:
        texts = (row.problem, row.gold, row.thinking, row.solution)
        known = (row.tier, row.solve_rate, self._weight)
        return Trace(key, *texts, self.tally.source, origin, 0, key, *known)

    def close(self) -> None:
        """Write the rest."""
        for stream in (self._survivors, self._dropped, self._signer, self._golds, self._origins):
            stream.close()
        np.save(self._folder / "order.npy", np.frombuffer(bytes(self._order), dtype=np.uint8))
        entries = np.frombuffer(bytes(self._entries), dtype=ENTRY)
        np.save(self._folder / "entries.npy", entries)
        write_tally(self._folder / "tally.json", self.tally)


def _is_witness(said: Judgement) -> bool:
    """Whether a dropped row states an answer that counts for its problem."""
    stated = said.row.gold_from in ("stated", "reference")
    reason = said.fault[0] if said.fault is not None else ""
    return stated and reason in WITNESSES and is_readable_gold(said.row.gold)


def sign_earlier(folder: Path, problems: Iterable[Problem], similarity: float) -> None:
    """A folder for problems that earlier runs held out, as the reduction expects it."""
    folder.mkdir(parents=True, exist_ok=True)
    signer = Signer(folder, similarity)
    for problem in problems:
        signer.place_of(problem.id, problem.problem)
    signer.close()
    np.save(folder / "entries.npy", np.empty(0, dtype=ENTRY))
