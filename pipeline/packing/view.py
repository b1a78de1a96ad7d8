"""Packed bins as a person reads them: text token by token, with borders, masks and positions.

Reads work/tokenize/ (arrays, documents.jsonl, manifest.json) and decodes with the base's
tokenizer; writes nothing. `python -m pipeline.inspect` calls it; terminal.py and page.py
draw what it returns.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from pipeline.base.artifacts import read_json
from pipeline.base.errors import UserError
from pipeline.packing.files import SCHEMA_VERSION
from pipeline.packing.stored import Stored

BROKEN = "\N{REPLACEMENT CHARACTER}"
LONGEST_CHARACTER = 4
"""Tokens at most that one character is spread over: UTF-8 has four bytes."""
LINE_END = "⏎"
AGAIN = "Run `dvc repro -f tokenize`."


@dataclass(frozen=True, slots=True)
class Piece:
    """The fewest tokens that stand for whole characters, nearly always one."""

    text: str
    ids: tuple[int, ...]
    position: int
    """Of its first token in the document."""
    trained: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a document's text."""

    position: int | None
    """Of the first token that begins on it; None if none does."""
    parts: list[tuple[str, Piece]]
    """Text, control characters made visible, and the piece it belongs to."""


@dataclass(frozen=True, slots=True)
class DocumentView:
    """One document of a bin."""

    row: dict[str, Any]
    """Its line of documents.jsonl."""
    place: int
    """Of its first token in the bin."""
    length: int
    trained: int
    pieces: list[Piece]

    def runs(self) -> list[tuple[bool, int]]:
        """Stretches with and without loss, as (trained, tokens)."""
        grouped = groupby(self.pieces, key=lambda piece: piece.trained)
        return [(trained, sum(len(one.ids) for one in run)) for trained, run in grouped]


@dataclass(frozen=True, slots=True)
class BinView:
    """One packed bin."""

    number: int
    tier: str
    band: int
    """Tokens that it holds at most."""
    documents: list[DocumentView]

    @property
    def tokens(self) -> int:
        """Tokens that it holds."""
        return sum(document.length for document in self.documents)

    @property
    def trained(self) -> int:
        """Those that carry loss."""
        return sum(document.trained for document in self.documents)


class Bins:
    """The folder of tokenize, opened for a person.

    Raises:
        UserError: nothing has been tokenized yet, or by another version, or it is torn.
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        self.folder, self._tokenizer = folder, tokenizer
        self.manifest: dict[str, Any] = read_json(folder / "manifest.json", AGAIN)
        if self.manifest.get("schema_version") != SCHEMA_VERSION:
            raise UserError(
                f"{folder / 'manifest.json'}: schema_version is"
                f" {self.manifest.get('schema_version')}, this version reads {SCHEMA_VERSION}",
                AGAIN,
            )
        self._stored = Stored(folder)
        self._sizes = self._stored.sizes()

    def __len__(self) -> int:
        return len(self._sizes)

    def spread(self, count: int) -> list[int]:
        """Numbers of `count` bins, evenly spread from the first to the last.

        Raises:
            UserError: fewer than one was asked for.
        """
        if count < 1:
            raise UserError(f"--bins {count}: there is nothing to show", "Ask for 1 or more.")
        places = np.linspace(0, len(self) - 1, min(count, len(self)))
        return [int(place) for place in places]

    def view(self, number: int) -> BinView:
        """Read a bin.

        Raises:
            UserError: there is no such bin, or documents.jsonl speaks of others.
        """
        if not 0 <= number < len(self):
            raise UserError(
                f"--bin {number}: {self.folder} has bins 0 to {len(self) - 1}",
                "Name one of these.",
            )
        first, last = (int(self._stored.firsts[number + step]) for step in (0, 1))
        lengths = self._stored.lengths[first:last].tolist()
        rows = list(_rows_of(self.folder / "documents.jsonl", number))
        if [row["length"] for row in rows] != lengths:
            raise UserError(
                f"{self.folder / 'documents.jsonl'}: the lines of bin {number} do not speak of"
                f" its {len(lengths)} documents",
                AGAIN,
            )
        bucket = self._bucket_of(number)
        documents, place = [], 0
        for row, index in zip(rows, range(first, last), strict=True):
            documents.append(self._document(row, index, place))
            place += row["length"]
        return BinView(number, bucket["tier"], bucket["band"], documents)

    def _document(self, row: dict[str, Any], index: int, place: int) -> DocumentView:
        ids, mask = self._stored.document(index)
        found = pieces(self._tokenizer, ids.tolist(), mask.tolist())
        return DocumentView(row, place, len(ids), int(mask.sum()), found)

    def _bucket_of(self, number: int) -> dict[str, Any]:
        for bucket in self.manifest["buckets"]:
            if bucket["first"] <= number < bucket["first"] + bucket["bins"]:
                return dict(bucket)
        raise UserError(f"{self.folder / 'manifest.json'}: bin {number} lies in no bucket", AGAIN)


def _rows_of(path: Path, number: int) -> Iterator[dict[str, Any]]:
    """Lines of a bin's documents, found by bisection: the file is sorted by bin."""
    try:
        with path.open("rb") as stream:

            def bin_from(offset: int) -> int:
                """Bin of the first line that begins at `offset` or later."""
                stream.seek(max(0, offset - 1))
                if offset:
                    stream.readline()
                line = stream.readline()
                return int(json.loads(line)["sequence"]) if line else sys.maxsize

            start = bisect_left(range(path.stat().st_size), number, key=bin_from)
            stream.seek(start)
            if start:
                stream.readline()  # the rest of the line before
            for line in stream:
                row = json.loads(line)
                if row["sequence"] != number:
                    break
                yield row
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: cannot be read ({error!r})", AGAIN) from None


def pieces(tokenizer: Tokenizer, ids: Sequence[int], trained: Sequence[bool]) -> list[Piece]:
    """Text of a document, token by token; tokens that share a character stay together.

    A piece never reaches over a border of the mask: a mask that cut a character would show
    as a replacement character on either side.
    """
    found: list[Piece] = []
    context = start = 0
    for stop in range(1, len(ids) + 1):
        text = _text_behind(tokenizer, ids[context:start], ids[start:stop])
        cut = text.endswith(BROKEN)
        may_grow = stop < len(ids) and trained[stop] == trained[start]
        if cut and may_grow and stop - start < LONGEST_CHARACTER:
            continue
        found.append(Piece(text, tuple(ids[start:stop]), start, trained[start]))
        # What stands before a token may decide its text, as a space in front of a word.
        context, start = (stop if cut else start), stop
    return found


def _text_behind(tokenizer: Tokenizer, before: Sequence[int], ids: Sequence[int]) -> str:
    def decode(some: Sequence[int]) -> str:
        return str(tokenizer.decode(list(some), skip_special_tokens=False))

    earlier, whole = decode(before), decode([*before, *ids])
    return whole.removeprefix(earlier) if whole.startswith(earlier) else decode(ids)


def visible(text: str) -> str:
    """Text in which control characters, odd blanks and unassigned ones show.

    Nothing that a terminal would obey is left: escape shows as ␛, others as ⟨U+200B⟩.
    """
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable() or character == " ":
        return character
    code = ord(character)
    if code < 32:
        return chr(0x2400 + code)
    return "␡" if code == 127 else f"⟨U+{code:04X}⟩"


def lines(stretch: Sequence[Piece]) -> list[Line]:
    """Cut a document, or a stretch of one, at its line ends, which show."""
    found: list[Line] = []
    parts: list[tuple[str, Piece]] = []
    position: int | None = None
    for piece in stretch:
        position = piece.position if position is None else position
        *ended, rest = piece.text.split("\n")
        for text in ended:
            parts.append((visible(text) + LINE_END, piece))
            found.append(Line(position, parts))
            parts, position = [], None
        if rest or not ended:
            parts.append((visible(rest) or f"⟨id {piece.ids[0]}⟩", piece))
    return [*found, Line(position, parts)] if parts else found


def about(row: dict[str, Any]) -> str:
    """Where a document comes from, in words."""
    names = ("id", "source", "origin", "tier", "variant")
    return " · ".join(f"{name} {visible(str(row.get(name)))}" for name in names)


def counted(number: int, noun: str) -> str:
    """`1 bin`, `2 bins`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def summary(bins: Bins) -> list[str]:
    """What the folder holds: one sentence, and one for every bucket where there are several."""
    whole = bins.manifest
    tokens, trained = int(whole["tokens"]), int(whole["trained_tokens"])
    told = (
        f"{bins.folder}: {counted(len(bins), 'bin')}, {counted(whole['documents'], 'document')},"
        f" {tokens:,} tokens,"
        f" {trained / tokens:.1%} of them trained, bins {whole['fill']:.2%} full"
    )
    buckets = [
        f"{counted(one['bins'], 'bin')} from bin {one['first']} on: tier {one['tier']}, up to"
        f" {one['band']:,} tokens, {counted(one['documents'], 'document')}"
        for one in whole["buckets"]
    ]
    return [told, *(buckets if len(buckets) > 1 else [])]
