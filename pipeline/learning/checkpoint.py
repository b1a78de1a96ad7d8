"""Everything that a run needs to go on, in one folder whose marker is written last.

runs/<key>/checkpoint-000040/ holds adapter/ (fp32 masters in PEFT's names),
optimizer.safetensors, state.json and COMPLETE with the hash of each file. Only a
folder whose marker and hashes hold, and which this run wrote, counts; anything else
is passed over with a line in the log, and the one before it is taken. What was not
written by this run, or is damaged, is never deleted, only set aside when its name is
needed. No torch, no pickle: tensors go through safetensors, and dropout is reseeded per
micro-batch, so that there is no generator state to lose.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import (
    MARKER,
    fsync_folder,
    is_complete,
    mark_complete,
    read_json,
    remove_tree,
    require_free_space,
    sha256_file,
    write_json,
)

NAME = re.compile(r"checkpoint-(\d{6,})")
ADAPTER_FOLDER = "adapter"
OPTIMIZER_FILE = "optimizer.safetensors"
STATE_FILE = "state.json"
REJECTED = f"{MARKER}.rejected"
"""What the marker of a checkpoint that may not be used is renamed to."""
SCORES_FILE = "scores.jsonl"
"""Of a run: {"checkpoint": its folder's name, "score": higher is better} a line, by
whatever evaluates checkpoints; later lines count for the same name."""

Log = Callable[[str], None]


@dataclass(frozen=True)
class TrainState:
    """Where a run stands after `step` completed steps; the data position follows from it."""

    step: int
    tokens: int
    """Packed tokens seen, all ranks."""
    trained_tokens: int
    """Tokens that carried loss, all ranks."""
    seconds: float
    """Training time of all attempts that led here, without loading."""
    loss_scale: float
    """Factor on the loss in fp16; 1 elsewhere."""
    good_steps: int
    """Steps since the loss scale last changed."""


def folder_of(run: Path, step: int) -> Path:
    """Where the checkpoint of `step` lies."""
    return run / f"checkpoint-{step:06d}"


def write_checkpoint(
    run: Path, state: TrainState, write_tensors: Callable[[Path], None], needed_bytes: int
) -> Path:
    """Save a checkpoint: tensors, state, then the marker with all hashes.

    Args:
        write_tensors: writes adapter/ and the optimizer file into the folder given.
        needed_bytes: refused before anything is written when the disk has less.
    """
    require_free_space(run, needed_bytes, "a checkpoint")
    target = folder_of(run, state.step)
    building = target.with_name(f".building-{target.name}")
    remove_tree(building)
    building.mkdir(parents=True)
    try:
        write_tensors(building)
        write_json(building / STATE_FILE, asdict(state))
        files = sorted(p for p in building.rglob("*") if p.is_file())
        hashes = {str(p.relative_to(building)): sha256_file(p) for p in files}
        mark_complete(building, {"run": run.name, "step": state.step, "files": hashes})
    except OSError:
        remove_tree(building)
        raise
    set_aside(target)
    building.rename(target)
    fsync_folder(run)
    return target


def set_aside(target: Path) -> None:
    """Give the name of a folder free for a new checkpoint without deleting what stands there."""
    if target.exists() or target.is_symlink():
        taken = {path.name for path in target.parent.glob(f"{target.name}.set-aside-*")}
        numbers = (n for n in itertools.count(1) if f"{target.name}.set-aside-{n}" not in taken)
        target.rename(target.with_name(f"{target.name}.set-aside-{next(numbers)}"))


def clear_torn(run: Path) -> None:
    """Delete what a killed save left behind."""
    for folder in run.glob(".building-*"):
        remove_tree(folder)


def fault_of(folder: Path) -> str | None:
    """Why a checkpoint folder must not be used, or None when it is whole."""
    if not is_complete(folder):
        return "no completeness marker"
    try:
        marker = json.loads((folder / MARKER).read_text("utf-8"))
        writer, step = str(marker["run"]), int(marker["step"])
        hashes: dict[str, str] = dict(marker["files"])
    except (KeyError, TypeError, ValueError):
        return "unreadable completeness marker"
    if (writer, step) != (folder.parent.name, step_of(folder)):
        return f"it was written by run {writer} at step {step}"
    for name, expected in hashes.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if sha256_file(path) != expected:
            return f"{name} is damaged"
    return None


def reject_damaged(run: Path, log: Log) -> None:
    """Take the marker from every checkpoint whose files are not what it says.

    Done once before an attempt, so that from then on the marker alone tells.
    """
    for folder in all_checkpoints(run):
        fault = fault_of(folder) if is_complete(folder) else None
        if fault is not None:
            log(f"{folder} is not used: {fault}")
            (folder / MARKER).replace(folder / REJECTED)


def all_checkpoints(run: Path) -> list[Path]:
    """Checkpoint folders of a run, oldest first, whole or not."""
    found = [p for p in run.glob("checkpoint-*") if p.is_dir() and NAME.fullmatch(p.name)]
    return sorted(found, key=step_of)


def step_of(folder: Path) -> int:
    """The step that a checkpoint folder's name states."""
    match = NAME.fullmatch(folder.name)
    if match is None:
        raise ValueError(f"{folder} is not named like a checkpoint")
    return int(match.group(1))


def newest_complete(run: Path, log: Log) -> Path | None:
    """The newest checkpoint that is whole; damaged ones are named in the log."""
    for folder in reversed(all_checkpoints(run)):
        fault = fault_of(folder)
        if fault is None:
            return folder
        log(f"skipping {folder}: {fault}")
    return None


def read_state(folder: Path) -> TrainState:
    """The state that a complete checkpoint holds."""
    return TrainState(**read_json(folder / STATE_FILE))


def discard_old(run: Path, keep: int, spare: set[str]) -> list[Path]:
    """Delete all but the newest `keep` complete checkpoints.

    Args:
        spare: names that stay whatever their age (what run_summary.json speaks of).
    """
    complete = [folder for folder in all_checkpoints(run) if is_complete(folder)]
    gone = [folder for folder in complete[:-keep] if folder.name not in spare]
    for folder in gone:
        remove_tree(folder)
    return gone


def best_scored(run: Path, log: Log) -> str | None:
    """Name of the complete checkpoint with the best score; None without a score.

    Of equal ones the oldest. A row that says nothing usable is named in the log.
    """
    scores: dict[str, float] = {}
    for row in as_rows(run / SCORES_FILE):
        try:
            name, score = str(row["checkpoint"]), float(row["score"])
            if not math.isfinite(score):
                raise ValueError(score)
            scores[name] = score
        except (KeyError, TypeError, ValueError):
            log(f"{run / SCORES_FILE}: {row!r} is no score of a checkpoint")
    present = [folder.name for folder in all_checkpoints(run) if is_complete(folder)]
    return max((name for name in present if name in scores), key=scores.__getitem__, default=None)


def as_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON-lines log whose last line may be cut by a kill."""
    rows = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                break
    return rows
