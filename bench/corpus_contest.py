"""Decontamination side by side: this project's stage and two peers on the same rows, in turn.

Called by `bench.corpus`. The rows that `filter` kept are cut into parts; on each part all
contestants run one after another on the same core, in an order that turns, so that whatever else
the machine does falls on all of them.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.corpus_ours import cut_kept, run_stage
from bench.corpus_process import run_watched
from bench.corpus_rows import Plant
from bench.corpus_score import Score, origins, score
from pipeline.base.artifacts import read_jsonl
from pipeline.base.records import Trace, read_rows

PEERS_FILE = Path(__file__).with_name("corpus_peers.py")
OURS = "this project"
PEERS = {
    "datatrove, 12-gram (its default)": ("datatrove", 12),
    "datatrove, 8-gram": ("datatrove", 8),
    "datasets.map, 8-gram, one hit": ("datasets", 8),
}


@dataclass
class Contestant:
    """What one contestant did on all parts."""

    seconds: list[float] = field(default_factory=list)
    """Rows in, rows out, of each part."""
    processor_seconds: list[float] = field(default_factory=list)
    """The same of processor time, which other load on the machine leaves alone."""
    decide_seconds: list[float] = field(default_factory=list)
    """Processor time of the decisions alone, problems in memory."""
    dropped: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    """Rows that it put on a list for a person to look at."""
    note: str = ""


@dataclass
class Contest:
    """All contestants on the same rows."""

    parts: list[Path]
    reached: list[str]
    bytes: int
    by_name: dict[str, Contestant]
    scores: dict[str, Score]
    listed: Score
    """This project's, with what it lists for review counted as dropped."""

    def ratio(self, name: str, what: Callable[[Contestant], list[float]]) -> tuple[float, float]:
        """How much faster this project is than a peer: smallest and median of the parts."""
        ours = what(self.by_name[OURS])
        ratios = [theirs / mine for theirs, mine in zip(what(self.by_name[name]), ours)]
        return min(ratios), statistics.median(ratios)


def hold_contest(
    folder: Path,
    protected: Path,
    planted: list[Plant],
    peer_python: Path,
    core: int,
    parts: int,
) -> Contest:
    """Run everyone on every part.

    Args:
        folder: a run folder in which `filter` and `semantic` have run.
        peer_python: interpreter that has datatrove and datasets.
    """
    shutil.rmtree(folder.parent / "contest", ignore_errors=True)
    cut = cut_kept(folder, parts, folder.parent / "contest")
    found = {name: Contestant() for name in (OURS, *PEERS)}
    for turn, part in enumerate(cut):
        names = list(found)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            result = (
                _ours(part, core)
                if name == OURS
                else _peer(*PEERS[name], part, protected, peer_python, core)
            )
            found[name].seconds.append(result["seconds"])
            found[name].processor_seconds.append(result["processor_seconds"])
            found[name].decide_seconds += result["decide_seconds"]
            found[name].dropped += result["dropped"]
            found[name].listed += result.get("listed", [])
            found[name].note = result.get("note", "")
            took = [result["seconds"], result["processor_seconds"], sum(result["decide_seconds"])]
            print(f"{part.name} · {name}: " + ", ".join(f"{one:.2f}" for one in took), flush=True)
    kept = [part / "work/filter/kept.jsonl" for part in cut]
    reached = [origin for path in kept for origin in origins(path)]
    scores = {name: score(planted, reached, one.dropped) for name, one in found.items()}
    listed = score(planted, reached, found[OURS].dropped + found[OURS].listed)
    size = sum(path.stat().st_size for path in kept)
    return Contest(cut, reached, size, found, scores, listed)


def _ours(part: Path, core: int) -> dict[str, Any]:
    stage = run_stage("decontaminate", part, core)
    command = [sys.executable, "-m", "bench.corpus_steps", "decide", str(part)]
    decided = json.loads(run_watched(command, part, core, part / "decide.log").stdout)
    dropped = origins(part / "work/decontaminate/dropped.jsonl")
    took = {"seconds": stage.seconds, "processor_seconds": stage.processor_seconds}
    return {**took, "dropped": dropped, "listed": _listed(part), **decided}


def _listed(part: Path) -> list[str]:
    """Origins of the rows that review.jsonl names and that stay."""
    rows = read_jsonl(part / "work/decontaminate/review.jsonl")
    ids = {row["id"] for row in rows if row["action"] == "keep"}
    kept = read_rows(Trace, part / "work/decontaminate/kept.jsonl")
    return [row.origin for row in kept if row.id in ids]


def _peer(
    peer: str, words: int, part: Path, protected: Path, python: Path, core: int
) -> dict[str, Any]:
    out = part / f"{peer}-{words}"
    shutil.rmtree(out, ignore_errors=True)  # datasets would take an earlier run's result
    command = [str(python), str(PEERS_FILE), peer, "--words", str(words)]
    command += ["--rows", str(part / "work/filter/kept.jsonl")]
    command += ["--protected", str(protected), "--out", str(out)]
    printed = run_watched(command, part, core, part / f"{peer}-{words}.log").stdout
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return result
