"""The data files of a run as name, size and hash: how data enter the DAG.

Reads the files that params.yaml names; writes nothing beside them (readers/hub.py
downloads into runs/hub/). `python -m pipeline.prepare` puts the result into
work/prepare/data.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pipeline.base.artifacts import Json
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache
from pipeline.base.params_corpus import SourceParams
from pipeline.corpus.readers.places import data_files


def describe_files(key: str, paths: Iterable[str | Path], cache: HashCache) -> list[Json]:
    """`{"path", "bytes", "sha256"}` of every file, in order.

    Args:
        key: the key of params.yaml that holds the paths; messages name it.
        paths: in any form that readers/places.py knows.
        cache: remembers hashes between runs.

    Raises:
        UserError: a file is missing, empty or of a kind that is not read.
    """
    return [
        {"path": str(file), "bytes": _size(key, file), "sha256": cache.sha256(file)}
        for path in paths
        for file in data_files(path, key)
    ]


def _size(key: str, file: Path) -> int:
    size = file.stat().st_size
    if not size:
        remedy = f"Fill it or remove it, or correct `{key}` in params.yaml."
        raise UserError(f"{file}: the file is empty", remedy)
    return size


def describe_sources(sources: Sequence[SourceParams], cache: HashCache) -> list[Json]:
    """`{"source", "path", "bytes", "sha256"}` of every file of the training data.

    `source` is the index of the entry of `data.sources` that the file belongs to.

    Raises:
        UserError: as `describe_files`, or two sources name one file.
    """
    found: list[Json] = []
    owner: dict[Path, int] = {}
    for index, source in enumerate(sources):
        for entry in describe_files("data.sources", [source.path], cache):
            real = Path(entry["path"]).resolve()
            first = owner.setdefault(real, index)
            if first != index:
                raise UserError(
                    f"{entry['path']}: named by {sources[first].path} and by {source.path}",
                    "Let one entry of `data.sources` name it; each of its rows would count twice.",
                )
            found.append({"source": index, **entry})
    return found


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
