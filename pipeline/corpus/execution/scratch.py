"""Folders of unfinished work, and joining what is finished.

A scratch folder is runs/corpus/STAGE-KEY; its key covers everything that decides what is
inside, so that a restart finds its own shards and nobody else's. Called by the corpus stages.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import (
    MARKER,
    Json,
    canonical_hash,
    fsync_folder,
    is_complete,
    mark_complete,
    read_json,
    remove_tree,
    replacing,
    sha256_file,
    sha256_text,
)

HOME = Path("runs/corpus")
PIPELINE = Path(__file__).resolve().parents[2]
LIBRARIES = ("numpy", "pyarrow", "tokenizers")
COPY_BYTES = 8 * 2**20


def scratch_folder(stage: str, decides: Json) -> Path:
    """The folder of a stage's unfinished work; older ones of the stage are removed.

    Args:
        decides: everything besides the code that decides the result or the cut: hashes of
            the inputs, sections of the params, and the size of shards.
    """
    libraries = {name: importlib.metadata.version(name) for name in LIBRARIES}
    about = {"python": platform.python_version(), "libraries": libraries, "code": _code(stage)}
    folder = HOME / f"{stage}-{canonical_hash({'decides': decides, **about})[:16]}"
    older = re.compile(re.escape(stage) + "-[0-9a-f]{16}")
    if HOME.is_dir():
        for other in HOME.iterdir():
            if other.name != folder.name and older.fullmatch(other.name):
                remove_tree(other)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def forget_scratch(folder: Path) -> None:
    """Remove a scratch folder, after the stage has written its outputs."""
    remove_tree(folder)


def _code(stage: str) -> dict[str, str]:
    """Hash of every file of code that a shard's content may depend on."""
    files = [*PIPELINE.glob("base/*.py"), *PIPELINE.glob("corpus/**/*.py")]
    files += PIPELINE.glob(f"{stage}.py")
    return {str(file.relative_to(PIPELINE)): sha256_file(file) for file in files}


def merge_files(folders: Sequence[Path], name: str, target: Path) -> int:
    """Join the file `name` of every folder, in order, into `target`; return its bytes.

    Bytes are copied as they are: each part must end with a line feed or be empty.
    """
    with replacing(target) as temporary:
        with temporary.open("wb") as whole:
            for folder in folders:
                with (folder / name).open("rb") as part:
                    shutil.copyfileobj(part, whole, COPY_BYTES)
            return whole.tell()


def digest(shard: Any) -> str:
    """Tells shards apart."""
    return sha256_text(repr(shard))


def is_finished(target: Path, shard: Any) -> bool:
    """Whether a folder is whole and was made from this very shard."""
    return is_complete(target) and read_json(target / MARKER)["shard"] == digest(shard)


@contextlib.contextmanager
def draft(target: Path) -> Iterator[Path]:
    """A folder beside `target` under a name that nobody takes for finished."""
    folder = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.tmp")
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        remove_tree(folder)


def publish(folder: Path, target: Path, note: Json) -> None:
    """Give a whole folder its marker and its name."""
    mark_complete(folder, note)
    try:
        folder.rename(target)
    except OSError:
        # Another node may have run the same shard, taken for dead; both wrote the same.
        if not is_complete(target):
            raise
    fsync_folder(target.parent)
