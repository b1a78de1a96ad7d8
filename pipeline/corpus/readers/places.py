"""Where rows lie: every form of a path → the files to read, in order of name.

A form is a file, a folder, a glob, a folder that `datasets` saved, or `hub:NAME@COMMIT`.
Lists folders and fetches from the hub; reads no rows. Called by ..listing.
"""

from __future__ import annotations

from collections.abc import Iterator
from glob import has_magic
from pathlib import Path

from pipeline.base.artifacts import read_json, user_path
from pipeline.base.errors import UserError
from pipeline.corpus.readers import hub
from pipeline.corpus.readers.kinds import ENDINGS, NAMED_ENDINGS, ending_of

_NO_DATA = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
_SAVED, _SAVED_SPLITS = "state.json", "dataset_dict.json"


def data_files(place: str | Path, key: str = "data.sources") -> list[Path]:
    """The files that a path stands for.

    Args:
        place: any form; `~` is the home folder.
        key: the key of params.yaml that holds it; messages name it.

    Raises:
        UserError: nothing there, nothing of a known kind, or several splits to choose from.
    """
    text, remedy = str(place), f"Correct `{key}` in params.yaml."
    if text.startswith(hub.PREFIX):
        return _from_hub(text, remedy)
    path = user_path(text)
    if path.is_file():
        if not ending_of(path):
            known = ", ".join(NAMED_ENDINGS)
            raise UserError(f"{path}: unknown kind of file, read are {known}", remedy)
        return [path]
    if path.is_dir():
        return _some(list(_walk(path)), f"{path}: no data file in this folder", remedy)
    if has_magic(text):
        return _some(_matches(path), f"{path}: no data file matches", remedy)
    raise UserError(f"{path}: no such file or folder", remedy)


def _some(files: list[Path], problem: str, remedy: str) -> list[Path]:
    if not files:
        raise UserError(f"{problem} (looked for {', '.join(ENDINGS)})", remedy)
    return files


def _matches(pattern: Path) -> list[Path]:
    """Data files that a glob names or that lie in folders that it names, each once."""
    found: dict[Path, None] = {}
    root = Path(pattern.anchor)
    try:
        named = sorted(root.glob(str(pattern.relative_to(root))))
    except ValueError as error:
        raise UserError(f"{pattern}: {error}", "Correct that pattern.") from None
    for path in named:
        files = _walk(path) if path.is_dir() else [path] if _is_data(path) else []
        found.update(dict.fromkeys(files))
    return sorted(found)


def _is_data(path: Path) -> bool:
    name = path.name
    known = ending_of(path) in ENDINGS and name not in _NO_DATA
    return known and not name.startswith(".") and path.is_file()


def _walk(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Data files below a folder; hidden ones are left out, links are followed once."""
    real = folder.resolve()
    if real in above:
        return
    if (folder / _SAVED).is_file() and (folder / "dataset_info.json").is_file():
        yield from _saved(folder)
    elif (folder / _SAVED_SPLITS).is_file():
        yield from _saved(_chosen_split(folder))
    else:
        for path in sorted(folder.iterdir()):
            if path.name.startswith("."):
                continue
            if path.is_dir():
                yield from _walk(path, above | {real})
            elif _is_data(path):
                yield path


def _saved(folder: Path) -> list[Path]:
    """Files of a split that `datasets` saved to disk, in its order."""
    state = read_json(folder / _SAVED, broken="Save the data set again.")
    try:
        files = [folder / str(entry["filename"]) for entry in state["_data_files"]]
    except (KeyError, TypeError):
        raise UserError(
            f"{folder / _SAVED}: lists no `_data_files`", "Save the data set again."
        ) from None
    missing = [path for path in files if not path.is_file()]
    if missing:
        raise UserError(f"{missing[0]}: file not found", "Copy the whole folder again.")
    return files


def _chosen_split(folder: Path) -> Path:
    """The training split of a saved dictionary of splits, or its only one."""
    said = read_json(folder / _SAVED_SPLITS, broken="Save the data set again.")
    splits = said.get("splits") if isinstance(said, dict) else None
    names = [str(name) for name in splits] if isinstance(splits, list) else []
    if "train" in names:
        return folder / "train"
    if len(names) == 1:
        return folder / names[0]
    raise UserError(
        f"{folder}: holds the splits {', '.join(names) or 'none'} and no `train`",
        "Name the folder of one split.",
    )


def _from_hub(text: str, remedy: str) -> list[Path]:
    source = hub.parse_hub(text)
    folder = hub.fetch(source, [*(f"*{ending}" for ending in ENDINGS), *_NO_DATA])
    if not source.part:
        return _some(list(_walk(folder)), f"{text}: no data file in this data set", remedy)
    place = folder / source.part
    files = [place] if _is_data(place) else list(_walk(place)) if place.is_dir() else []
    return _some(files or _matches(place), f"{text}: no data file of that name", remedy)
