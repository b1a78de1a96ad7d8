"""Files that are either whole or not there.

Writes go to a temporary name in the same folder, are flushed to the disk and
then renamed over the target, so that a kill or a full disk leaves the old file.
A folder counts as complete only when its marker, written last, is inside.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from pipeline.base.errors import UserError

Json = Any
"""A value that `json` reads or writes; its shape is checked where it is used."""

MARKER = "COMPLETE"
"""Name of the file that is written last into a folder of several files."""


def fsync_folder(folder: Path) -> None:
    """Make the renames inside `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of `path`; rename it over `path` on success.

    The temporary file is removed when the body raises, so a failed write leaves
    neither a torn file nor litter.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
        fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def writing_text(path: Path) -> Iterator[TextIO]:
    """Open `path` for UTF-8 text with LF line ends, replaced whole on success."""
    with replacing(path) as temporary:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text`."""
    with writing_text(path) as stream:
        stream.write(text)


def dump_json(value: Json) -> str:
    """One line of strict JSON: NaN refused, keys in the given order."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))


def write_json(path: Path, value: Json) -> None:
    """Replace `path` by indented strict JSON."""
    write_text(path, json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2) + "\n")


def write_jsonl(path: Path, rows: Iterable[Json]) -> int:
    """Replace `path` by one JSON value a line; return how many there were."""
    count = 0
    with writing_text(path) as stream:
        for row in rows:
            stream.write(dump_json(row) + "\n")
            count += 1
    return count


def read_json(path: Path, broken: str = "Delete it and run again.") -> Json:
    """Read one JSON file; a missing or broken one is the user's to mend.

    Args:
        broken: the remedy for a file that cannot be parsed.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{path}: file not found", "Run the stage that makes it: `dvc repro`."
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid JSON ({error})", broken) from None


def read_jsonl(path: Path) -> Iterator[Json]:
    """Yield the values of a JSON-lines file that a stage has written."""
    try:
        with path.open(encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    yield json.loads(line)
                except json.JSONDecodeError as error:
                    raise UserError(
                        f"{path}:{number}: not valid JSON ({error})", "Delete it and run again."
                    ) from None
    except FileNotFoundError:
        raise UserError(
            f"{path}: file not found", "Run the stage that makes it: `dvc repro`."
        ) from None


def sha256_file(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_text(text: str) -> str:
    """Hexadecimal SHA-256 of UTF-8 text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def canonical_hash(value: Json) -> str:
    """Hash of a JSON value that does not depend on the order of its keys."""
    return sha256_text(json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":")))


def mark_complete(folder: Path, note: Json) -> None:
    """Flush every file of `folder`, then write its marker, last."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
    fsync_folder(folder)
    write_json(folder / MARKER, note)


def is_complete(folder: Path) -> bool:
    """Whether `folder` carries its marker."""
    return (folder / MARKER).is_file()


def remove_tree(folder: Path) -> None:
    """Delete a folder of ours, its marker first, so that no torn one looks whole."""
    (folder / MARKER).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def user_path(text: str) -> Path:
    """A path as a user writes it: `~` is the home folder.

    Raises:
        UserError: there is no such home folder.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise UserError(f"{text}: {error}", "Write the path out.") from None


def require_free_space(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Refuse to start writing what the disk cannot hold.

    Raises:
        UserError: when fewer than `needed_bytes` are free where `folder` lies.
    """
    existing = folder
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if free < needed_bytes:
        raise UserError(
            f"{folder}: {purpose} needs {needed_bytes / 2**30:.2f} GiB, "
            f"{free / 2**30:.2f} GiB are free",
            "Free some space or move the project to a larger disk.",
        )
