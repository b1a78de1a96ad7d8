"""run_summary.json: what it must say, and which adapter files it speaks of.

While an adapter is being replaced the file carries, beside the summary of the old
files, the summary of the new ones under `incoming`; the hashes decide which of
the two holds. So the pair is valid on either side of the swap (see publish.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeGuard

from pipeline.base.adapter_format import ADAPTER_FILES

ADAPTER = "adapter"
"""The published folder, beside its summary."""

SUMMARY_FILE = "run_summary.json"
SCHEMA_VERSION = 1
INCOMING = "incoming"

Summary = dict[str, Any]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_seconds(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0


def _is_devices(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_text(item) for item in value)


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None


def _is_adapter(value: Any) -> TypeGuard[dict[str, Any]]:
    files = value.get("files") if isinstance(value, dict) else None
    return (
        isinstance(files, dict)
        and set(files) == set(ADAPTER_FILES)
        and all(_is_hash(item) for item in files.values())
    )


FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "schema_version": (lambda v: v == SCHEMA_VERSION, str(SCHEMA_VERSION)),
    "status": (lambda v: v in ("partial", "complete"), '"partial" or "complete"'),
    "method_name": (_is_text, "the name of the method"),
    "devices": (_is_devices, "a list of device names"),
    "total_elapsed_seconds": (_is_seconds, "seconds, all sessions of the job together"),
    "checkpoint_path": (_is_text, "the path of a checkpoint"),
    "run_key": (_is_text, "the run's key"),
    "step": (_is_count, "a step number"),
    "steps_planned": (_is_count, "a number of steps"),
    "ended_by": (lambda v: v in (None, "steps", "budget"), 'null, "steps" or "budget"'),
    "base_fingerprint": (_is_text, "the fingerprint of the base"),
    "attempts": (_is_count, "a number of attempts"),
    "contract": (lambda v: v in ("passed", "failed", "not run"), "passed, failed or not run"),
    "adapter": (_is_adapter, "the hashes of the adapter's two files"),
    "updated_unix": (_is_seconds, "seconds since 1970"),
}
"""Field → its test, and in words what passes it. All are required."""


def summary_fault(summary: Any, root: Path) -> str | None:
    """The first fault of a summary in words, None when it is sound.

    Args:
        summary: the parsed file, or its `incoming` part.
        root: folder that `checkpoint_path` is relative to. The checkpoint of a
            finished run may be gone: `make clean` keeps the adapter alone.
    """
    if not isinstance(summary, dict):
        return "not an object"
    for name, (accepts, wanted) in FIELDS.items():
        if name not in summary:
            return f"`{name}` is missing"
        if not accepts(summary[name]):
            return f"`{name}` = {summary[name]!r}, expected {wanted}"
    if summary["status"] == "partial" and not (root / summary["checkpoint_path"]).exists():
        return f"`checkpoint_path` = {summary['checkpoint_path']!r} does not exist"
    return None


def matching_summary(value: Any, hashes: dict[str, str]) -> Summary | None:
    """The part of run_summary.json that speaks of files with these hashes.

    Returns:
        The summary without `incoming`, or the incoming one, or None.
    """
    if not isinstance(value, dict):
        return None
    current = {name: item for name, item in value.items() if name != INCOMING}
    candidates: tuple[Any, ...] = (value.get(INCOMING), current)
    for summary in candidates:
        adapter = summary.get("adapter") if isinstance(summary, dict) else None
        if _is_adapter(adapter) and adapter["files"] == hashes:
            return dict(summary)
    return None
