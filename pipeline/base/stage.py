"""The runner under every stage: params in, exit code out.

A stage is `raise SystemExit(run_stage("filter", main))`. The runner loads
params.yaml, notes how long the stage took in runs/stages/<name>.json, and
turns faults into one line and an exit code. If a declared dependency changes
while the stage runs, the stage fails: DVC would otherwise record the new input
beside the output of the old one.
"""

from __future__ import annotations

import errno
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipeline.base.artifacts import write_json
from pipeline.base.budget import open_budget
from pipeline.base.errors import (
    EXIT_BAD_INPUT,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    Interrupted,
    UserError,
)
from pipeline.base.lock import hold
from pipeline.base.params import Params, load_params
from pipeline.base.progress import duration

STAGE_LOCK = Path("runs/stage.lock")
"""Held while a stage works: DVC leaves a stage behind when it dies before it."""

_WRITABLE = ("cannot be written", "Make the project's folder writable, or copy it elsewhere.")
MENDABLE = {
    errno.ENOSPC: ("no space left", "Free some space and run again."),
    errno.EDQUOT: ("the quota is used up", "Free some space and run again."),
    errno.EACCES: ("permission denied", "Give this user the right to it."),
    errno.EPERM: ("not permitted", "Give this user the right to it."),
    errno.EROFS: _WRITABLE,
    errno.ENOTDIR: ("a file stands where a folder is needed", "Move it away and run again."),
    errno.EISDIR: ("a folder stands where a file is needed", "Move it away and run again."),
}
"""What the user can mend when the system refuses a file: fault and remedy."""

Work = Callable[[Params], None]
Snapshot = dict[str, Any]


def _stat(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is rewritten: size, mtime, inode."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _picked(tree: Any, dotted: str) -> Any:
    """The value under a dotted key, or None."""
    for part in dotted.split("."):
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def snapshot(root: Path, name: str) -> Snapshot:
    """State of all declared dependencies of a stage; empty without a dvc.yaml."""
    declared = root / "dvc.yaml"
    if not declared.is_file():
        return {}
    yaml = YAML(typ="safe")
    stage = yaml.load(declared.read_text(encoding="utf-8"))["stages"][name]
    state: Snapshot = {}
    for dependency in stage.get("deps", []):
        path = root / dependency
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        state.update({str(file.relative_to(root)): _stat(file) for file in files})
    tree = yaml.load((root / "params.yaml").read_text(encoding="utf-8"))
    state.update({f"params.yaml {key}": _picked(tree, key) for key in stage.get("params", [])})
    return state


def _refuse_changes(before: Snapshot, after: Snapshot) -> None:
    changed = sorted(
        key for key in before.keys() | after.keys() if before.get(key) != after.get(key)
    )
    if changed:
        raise UserError(
            f"changed while the stage ran: {', '.join(changed)}",
            "Run again: what was computed from the old version is not recorded.",
        )


def run_stage(name: str, work: Work, root: Path | None = None) -> int:
    """Run one stage and return its exit code (0, 1, 2 or 130).

    Args:
        name: the stage's name in dvc.yaml.
        work: does the stage's work; paths are relative to the current folder.
        root: the project's folder, the current one by default.
    """
    root = root or Path.cwd()
    started = time.time()
    try:
        params = load_params(root / "params.yaml")
        with hold(root / STAGE_LOCK, "a stage"):
            budget = open_budget(root, params.budget.hours)
            budget.beat(force=True)
            before = snapshot(root, name)
            work(params)
            _refuse_changes(before, snapshot(root, name))
            seconds = time.time() - started
            budget.beat(force=True)
        write_json(root / f"runs/stages/{name}.json", {"stage": name, "seconds": round(seconds, 2)})
        print(f"{name}: done in {duration(seconds)}", flush=True)
        return EXIT_OK
    except UserError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return EXIT_BAD_INPUT
    except Interrupted as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        print(f"{name}: interrupted; run again", file=sys.stderr, flush=True)
        return EXIT_INTERRUPTED
    except Exception as error:  # the one broad catch: a bug must still end in one clear line
        return _report_bug(name, error)


def _report_bug(name: str, error: Exception) -> int:
    if isinstance(error, OSError) and error.errno in MENDABLE:
        where = error.filename or Path.cwd()
        what, remedy = MENDABLE[error.errno]
        print(f"{name}: {where}: {what}. {remedy}", file=sys.stderr, flush=True)
        return EXIT_BAD_INPUT
    traceback.print_exc()
    print(f"{name}: internal error: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    return EXIT_FAILED
