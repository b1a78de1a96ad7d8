"""Second step over a shard: what the reduction decided becomes rows of four files.

Run by `python -m pipeline.filter` on every shard at once, after index.py. Reads the
judged shard's folder and its decisions; writes into a folder of its own: kept.jsonl (its
tokens counted), dropped.jsonl (the judged ones among them, in the order of the rows),
panel.jsonl and reserve.jsonl (problems held out) and tally.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.base.chat import Chat
from pipeline.base.grading import grade
from pipeline.base.params import PromptParams
from pipeline.base.records import Problem, Trace, from_line, read_lines, to_line
from pipeline.corpus.copies.decisions import (
    CLASH,
    CONTRADICTED,
    DROPPED_CANNED,
    DUPLICATE,
    HELD,
    HELD_EARLIER,
    KEPT,
    NONE,
    OUTVOTED,
    RESERVED,
)
from pipeline.corpus.copies.index import DETAILS
from pipeline.corpus.copies.keyed_hash import number_id
from pipeline.corpus.copies.shard_store import read_text
from pipeline.corpus.execution.shards import Shard
from pipeline.corpus.execution.watch import POISON, Watch
from pipeline.corpus.funnel import SourceTally, dropped_row, write_tally
from pipeline.corpus.judge import open_chat
from pipeline.corpus.rows.text import RowFault, excerpt_of

BATCH_ROWS = 256
BATCH_CHARACTERS = 2**22
OUTPUTS = ("kept.jsonl", "dropped.jsonl", "panel.jsonl", "reserve.jsonl")
CANNED = "canned"


@dataclass(frozen=True)
class SettleJob:
    """What is the same for all shards."""

    base: str
    prompt: PromptParams
    judged: tuple[str, ...]
    """Folders of all judged shards, by number."""
    decisions: str


def settle_shard(job: SettleJob, shard: Shard, folder: Path, watch: Watch) -> None:
    """Give every candidate of a judged shard its place in one of the files."""
    judged = Path(job.judged[shard.number])
    survivors, gone = read_lines(judged / "survivors.jsonl"), read_lines(judged / "dropped.jsonl")
    decisions = np.load(Path(job.decisions) / f"{shard.number:05d}.npy")
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("wb")) for name in OUTPUTS}
        desk = _Desk(job, shard, files, watch, len(decisions))
        place = 0
        for survives in np.load(judged / "order.npy"):
            if survives:
                desk.settle(place, next(survivors), decisions[place])
                place += 1
            else:
                files["dropped.jsonl"].write(next(gone))
        desk.flush()
    write_tally(folder / "tally.json", desk.tally)


class _Desk:
    """The open files of a settled shard, and the rows whose tokens are still to be counted."""

    def __init__(
        self, job: SettleJob, shard: Shard, files: dict[str, Any], watch: Watch, survivors: int
    ) -> None:
        self.tally = SourceTally(shard.source)
        self._job, self._judged, self._files = job, Path(job.judged[shard.number]), files
        self._watch, self._survivors = watch, survivors
        self._batch: list[tuple[int, Trace]] = []
        self._characters = 0

    def settle(self, place: int, line: bytes, decision: NDArray[Any]) -> None:
        """Decide on the survivor `place`."""
        poison = self._watch.enter(place)
        trace = from_line(Trace, line, f"{self._judged}/survivors.jsonl:{place + 1}")
        gold = self._gold(decision)
        fault = RowFault(poison, POISON[poison]) if poison else None
        fault = fault or self._fault(place, trace, decision, gold)
        self.tally.flags.update([CANNED] * int(decision["canned"]))
        if fault is not None:
            self._drop(trace, fault)
        else:
            proven = trace.gold if gold is None or decision["stated"] else gold
            group = number_id(int(decision["group"]))
            self._place(place, replace(trace, gold=proven, group=group), decision)
        if decision["asked"]:
            self._ask(trace, gold, int(decision["verdict"]))
        self._watch.done()

    def _gold(self, decision: NDArray[Any]) -> str | None:
        """The answer that is stated for the group, if it is needed here."""
        if decision["gold_shard"] == NONE or (decision["stated"] and not decision["asked"]):
            return None
        folder = Path(self._job.judged[int(decision["gold_shard"])])
        return read_text(folder, "golds", int(decision["gold_at"])).partition("\0")[0]

    def _fault(
        self, place: int, trace: Trace, decision: NDArray[Any], gold: str | None
    ) -> RowFault | None:
        verdict, at = int(decision["verdict"]), int(decision["at"])
        if verdict == DUPLICATE:
            folder = Path(self._job.judged[int(decision["shard"])])
            return RowFault("duplicate-row", f"same as {_origin(folder, at)[0]}")
        if verdict == CLASH:
            row_id = excerpt_of(_origin(self._judged, place)[1])
            return RowFault("id-clash", f"id {row_id!r} belongs to another problem")
        if verdict in (CONTRADICTED, OUTVOTED):
            said = read_text(Path(self._job.decisions), DETAILS, at)
            return RowFault("gold-conflict" if verdict == CONTRADICTED else "gold-minority", said)
        if gold is not None and not decision["stated"]:
            found = grade(trace.solution, gold)
            if not found.correct:
                return RowFault("wrong-answer", f"{found.answer!r}, gold {gold!r} of another row")
        if verdict == DROPPED_CANNED:
            return RowFault(CANNED, "replies to other problems are worded alike")
        if verdict == HELD_EARLIER:
            return RowFault("held-out-earlier", "an earlier run held out this problem")
        return None

    def _place(self, place: int, trace: Trace, decision: NDArray[Any]) -> None:
        verdict = int(decision["verdict"])
        self.tally.held_out += verdict == HELD
        self.tally.reserved += verdict == RESERVED
        if verdict == KEPT:
            self._batch.append((place, trace))
            self._characters += len(trace.problem) + len(trace.thinking) + len(trace.solution)
            if len(self._batch) == BATCH_ROWS or self._characters > BATCH_CHARACTERS:
                self.flush()

    def _ask(self, trace: Trace, gold: str | None, verdict: int) -> None:
        answer = trace.gold if gold is None else gold
        problem = Problem(trace.id, trace.problem, answer, trace.source, trace.origin)
        self._files["panel.jsonl" if verdict == HELD else "reserve.jsonl"].write(to_line(problem))

    def _drop(self, trace: Trace, fault: RowFault) -> None:
        row = dropped_row(trace.origin, trace.source, fault, trace.problem)
        self.tally.drop(row)
        self._files["dropped.jsonl"].write(to_line(row))

    def flush(self) -> None:
        """Count the tokens of the rows that wait for it, and write them."""
        for trace, tokens in self._counted():
            self.tally.kept += 1
            self._files["kept.jsonl"].write(to_line(replace(trace, tokens=tokens)))
        self._batch, self._characters = [], 0

    def _counted(self) -> Iterator[tuple[Trace, int]]:
        """Rows with their tokens; a batch that ended a process is taken apart.

        The watch knows a batch as the row behind all survivors plus its first row, a row
        taken out of one by another such step.
        """
        if not self._batch:
            return
        chat = open_chat(self._job.base, self._job.prompt)
        if self._watch.enter(self._survivors + self._batch[0][0]) is None:
            traces = [trace for _, trace in self._batch]
            yield from zip(traces, count_tokens(chat, traces), strict=True)
            return
        for place, trace in self._batch:
            poison = self._watch.enter(2 * self._survivors + place)
            if poison is None:
                yield trace, count_tokens(chat, [trace])[0]
            else:
                self._drop(trace, RowFault(poison, POISON[poison]))


def _origin(folder: Path, place: int) -> tuple[str, str]:
    """(origin, row id) of a survivor of a judged shard."""
    origin, _, row_id = read_text(folder, "origins", place).partition("\0")
    return origin, row_id


def count_tokens(chat: Chat, traces: list[Trace]) -> list[int]:
    """Tokens of prompt, reply and end token of each trace, encoded many at a time.

    They are what `python -m pipeline.tokenize` makes of a trace whose problem is put with
    the prompt of params.yaml itself; a variant of it may be longer or shorter.
    """
    prompts = chat.encode_prompts([trace.problem for trace in traces])
    texts = [chat.reply_text(trace.thinking, trace.solution) for trace in traces]
    replies = chat.encode_replies(texts)
    return [len(prompt) + len(reply) + 1 for prompt, reply in zip(prompts, replies, strict=True)]
