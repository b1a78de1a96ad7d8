"""Kinds of data files, told by the ending of the name.

Reads and writes nothing. Called by places.py and sources.py.
"""

from __future__ import annotations

from pathlib import Path

LINE_SUFFIXES = (".jsonl", ".ndjson")
ARCHIVES = (".gz", ".zst")
ENDINGS = (
    *(f"{suffix}{archive}" for suffix in (*LINE_SUFFIXES, ".json") for archive in ("", *ARCHIVES)),
    *(".parquet", ".arrow"),
)
"""Kinds of files that are found in a folder."""

NAMED_ENDINGS = (*ENDINGS, ".txt")
"""Kinds that may be named one by one; a text file holds JSON lines."""


def ending_of(path: Path) -> str:
    """The known ending of a file's name, in lower case; empty if it has none."""
    name = path.name.lower()
    return next((one for one in NAMED_ENDINGS if name.endswith(one)), "")
