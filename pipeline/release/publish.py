"""The publisher: `adapter/` and run_summary.json at the top, a valid pair at any time.

Reads a folder with the two adapter files in export form; writes `adapter/`,
`run_summary.json` and, while it works, `.publishing/`. No torch: the training
supervisor calls `publish` after each checkpoint, and `python -m pipeline.publish`
at the end.

Order of events, each durable before the next:
  1. `.publishing/adapter/` gets copies of the files, `.publishing/run_summary.json`
     last: with it, the new pair is whole.
  2. run_summary.json: the old summary, with the new one under `incoming`.
  3. `adapter/` and `.publishing/adapter/` change places (swap.py). One without a valid
     summary is not ours to delete: it goes to `adapter.replaced/` first.
  4. run_summary.json: the new summary alone.
  5. `.publishing/` goes.
The summary carries the hashes of its adapter files, so at each point it is decided
which summary holds, and the pair is valid. Only the very first publication, which
has no old pair, leaves nothing or an adapter without its summary if it is killed;
`recover` then completes it. So does it where the kernel cannot exchange names.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Literal

from pipeline.base.adapter_format import ADAPTER_FILES, WEIGHTS_FILE
from pipeline.base.artifacts import fsync_folder, require_free_space, sha256_file, write_json
from pipeline.base.errors import UserError
from pipeline.base.safetensors_file import DamagedFile, read_header
from pipeline.release.run_summary import (
    ADAPTER,
    INCOMING,
    SCHEMA_VERSION,
    SUMMARY_FILE,
    Summary,
    matching_summary,
    summary_fault,
)
from pipeline.release.swap import move_in, renaming

STAGING = ".publishing"
OLD = "old"
REPLACED = f"{ADAPTER}.replaced"

Status = Literal["partial", "complete"]


def publish(root: Path, source: Path, summary: Summary, status: Status) -> bool:
    """Make `source` the published adapter.

    Args:
        root: the project's folder.
        source: folder with the two files, in export form.
        summary: the fields of run_summary.json but `schema_version`, `status`,
            `adapter` and `updated_unix`, which are added here; `contract` is
            "not run" and `ended_by` null when left out.
        status: "partial" for a checkpoint, "complete" for the end of a run.

    Returns:
        False when a finished adapter for the same base stays in place instead.

    Raises:
        UserError: the source is damaged, the summary incomplete, the disk full, or
            `adapter/` a mount point.
    """
    recover(root)
    published = published_summary(root)
    if status == "partial" and _is_finished(published, summary.get("base_fingerprint")):
        return False
    _refuse_damage(source)
    complete = _stage(root, source, summary, status)
    _swap_in(root, published, complete)
    return True


def recover(root: Path) -> str:
    """Mend what a kill left behind; safe to call at any time, by one process.

    Returns:
        What was done, for the log; empty when nothing had to be.
    """
    staging = root / STAGING
    staged = read_json_or_none(staging / SUMMARY_FILE)
    done = ""
    if not (root / ADAPTER).exists():
        done = _restore(root, staging, staged)
    if (root / ADAPTER).exists():
        summary, found = read_json_or_none(root / SUMMARY_FILE), _hashes(root / ADAPTER)
        holds = matching_summary(summary, found) or matching_summary(staged, found)
        if holds is not None and holds != summary:
            write_json(root / SUMMARY_FILE, holds)
            done = done or f"{SUMMARY_FILE} now speaks of the adapter in place"
    if staging.exists():
        shutil.rmtree(staging)
    for litter in root.glob(f".{SUMMARY_FILE}.*.tmp"):
        litter.unlink()
    return done


def published_summary(root: Path) -> Summary | None:
    """The summary that holds for `adapter/`; None when there is no valid pair."""
    if not (root / ADAPTER).is_dir():
        return None
    return matching_summary(read_json_or_none(root / SUMMARY_FILE), _hashes(root / ADAPTER))


def read_json_or_none(path: Path) -> Any:
    """A JSON file of ours, or None where it is missing or torn."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def _is_finished(published: Summary | None, base_fingerprint: Any) -> bool:
    """Whether a finished adapter for this base is in place.

    One for another base is of no use to the run that is being published.
    """
    if published is None or published["status"] != "complete":
        return False
    return bool(published["base_fingerprint"] == base_fingerprint)


def _restore(root: Path, staging: Path, staged: Any) -> str:
    """No `adapter/`: finish a publication that was whole, else bring the old one back."""
    whole = (staging / ADAPTER).is_dir() and matching_summary(staged, _hashes(staging / ADAPTER))
    for name, usable in ((ADAPTER, whole), (OLD, (staging / OLD).is_dir())):
        if usable:
            (staging / name).rename(root / ADAPTER)
            fsync_folder(root)
            return f"{ADAPTER}/ put back from {STAGING}/{name}"
    return ""


def _refuse_damage(source: Path) -> None:
    """A torn file must not take the place of a good one."""
    missing = [name for name in ADAPTER_FILES if not (source / name).is_file()]
    if missing:
        raise UserError(f"{source}: {missing[0]} is missing", "Export the checkpoint again.")
    try:
        read_header(source / WEIGHTS_FILE)
    except DamagedFile as error:
        raise UserError(
            f"{source / WEIGHTS_FILE}: damaged ({error})", "Export the checkpoint again."
        ) from None


def _stage(root: Path, source: Path, summary: Summary, status: Status) -> Summary:
    """Write the whole new pair into `.publishing/`, its summary last."""
    staging = root / STAGING
    needed = sum((source / name).stat().st_size for name in ADAPTER_FILES)
    require_free_space(root, needed, "the published adapter")
    (staging / ADAPTER).mkdir(parents=True)
    for name in ADAPTER_FILES:
        _copy(source / name, staging / ADAPTER / name)
    fsync_folder(staging / ADAPTER)
    complete = {
        "schema_version": SCHEMA_VERSION,
        "status": status,
        "ended_by": None,
        "contract": "not run",
        **summary,
        "adapter": {"files": _hashes(staging / ADAPTER)},
        "updated_unix": round(time.time(), 3),
    }
    fault = summary_fault(complete, root)
    if fault:
        shutil.rmtree(staging)
        raise UserError(f"{SUMMARY_FILE}: {fault}", "Give the field to `publish`.")
    write_json(staging / SUMMARY_FILE, complete)
    return complete


def _swap_in(root: Path, published: Summary | None, complete: Summary) -> None:
    staging, path = root / STAGING, root / SUMMARY_FILE
    if published is not None:
        write_json(path, {**published, INCOMING: complete})
    elif os.path.lexists(root / ADAPTER):
        _move_aside(root)
    move_in(staging / ADAPTER, root / ADAPTER, staging / OLD)
    write_json(path, complete)
    shutil.rmtree(staging)


def _move_aside(root: Path) -> None:
    """Keep a folder that we did not publish, under a name that is free."""
    kept, number = root / REPLACED, 2
    while os.path.lexists(kept):
        kept, number = root / f"{REPLACED}-{number}", number + 1
    with renaming(root / ADAPTER):
        (root / ADAPTER).rename(kept)
    fsync_folder(root)
    print(
        f"publish: {ADAPTER}/ has no {SUMMARY_FILE} that speaks of it; moved to {kept.name}/",
        file=sys.stderr,
    )


def _copy(source: Path, target: Path) -> None:
    """A copy with its own bytes and one name, whatever links `source` is made of."""
    with source.open("rb") as reader, target.open("wb") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
        writer.flush()
        os.fsync(writer.fileno())


def _hashes(folder: Path) -> dict[str, str]:
    return {name: sha256_file(folder / name) for name in ADAPTER_FILES if (folder / name).is_file()}
