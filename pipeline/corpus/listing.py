"""The data files of a run as name, size and hash: how data enter the DAG.

Reads the files that params.yaml names; writes nothing, least of all beside them.
`python -m pipeline.prepare` puts the result into work/prepare/data.json.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipeline.base.artifacts import Json, user_path
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache
from pipeline.corpus.sources import SUFFIXES, data_files


def describe_files(key: str, paths: Iterable[str | Path], cache: HashCache) -> list[Json]:
    """`{"path", "bytes", "sha256"}` of every file, folders resolved to their data files.

    Args:
        key: the key of params.yaml that holds the paths; messages name it.
        paths: files or folders; `~` is the home folder.
        cache: remembers hashes between runs.

    Raises:
        UserError: a file is missing, empty or of a kind that is not read.
    """
    return [
        {"path": str(file), "bytes": file.stat().st_size, "sha256": cache.sha256(file)}
        for path in paths
        for file in _checked(key, user_path(str(path)))
    ]


def _checked(key: str, path: Path) -> list[Path]:
    remedy = f"Correct `{key}` in params.yaml."
    if not path.exists():
        raise UserError(f"{path}: no such file or folder", remedy)
    files = data_files(path)
    for file in files:
        if file.suffix.lower() not in SUFFIXES:
            known = ", ".join(SUFFIXES)
            raise UserError(f"{file}: unknown kind of file, read are {known}", remedy)
        if not file.stat().st_size:
            raise UserError(f"{file}: the file is empty", f"Fill it or remove it. {remedy}")
    return files


def describe_file(key: str, path: str | Path, cache: HashCache) -> Json:
    """The same for what must be one file.

    Raises:
        UserError: as `describe_files`, or a folder holds several.
    """
    files = describe_files(key, [path], cache)
    if len(files) != 1:
        raise UserError(
            f"{path}: {len(files)} files where one is expected", f"Name one of them in `{key}`."
        )
    return files[0]
