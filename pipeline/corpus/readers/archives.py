"""Compressed files as streams of bytes; damage ends the stream where it lies, not before.

Reads .gz and .zst (several members one after the other too); writes nothing. Called by
sources.py. What cannot be expanded raises `ArchiveDamage` once everything before it has
been handed out.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow

CODECS = {".gz": "gzip", ".zst": "zstd"}
BUFFER_BYTES = 2**18
FEED_BYTES = 2**16


class ArchiveDamage(Exception):
    """Why a file cannot be read on; the message names byte and cause."""


def open_stream(path: Path) -> BinaryIO:
    """The bytes of a file, expanded if its name ends in .gz or .zst."""
    codec = CODECS.get(path.suffix.lower())
    if codec is None:
        return path.open("rb")
    return io.BufferedReader(_Expanded(path, codec), BUFFER_BYTES)


class _Feed:
    """A file that hands out one byte at a time from some position on."""

    closed = False

    def __init__(self, path: Path, fine_from: int | None) -> None:
        self._stream = path.open("rb")
        self._fine_from = fine_from
        self.position = 0
        self.before = 0
        """Position before the last piece."""

    def read(self, size: int = -1) -> bytes:
        """At most `FEED_BYTES`."""
        wanted = min(size, FEED_BYTES) if size >= 0 else FEED_BYTES
        if self._fine_from is not None:
            wanted = min(wanted, max(1, self._fine_from - self.position))
        piece = self._stream.read(wanted)
        self.before, self.position = self.position, self.position + len(piece)
        return piece

    def close(self) -> None:
        self._stream.close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


class _Expanded(io.RawIOBase):
    """The expanded bytes of an archive.

    An expander that meets damage keeps back what it had of the same piece. The archive
    is then read anew up to that piece, which is fed byte by byte.
    """

    def __init__(self, path: Path, codec: str) -> None:
        self._path = path
        self._codec = codec
        self._done = 0
        self._fine = False
        self._open(None)

    def _open(self, fine_from: int | None) -> None:
        self._feed = _Feed(self._path, fine_from)
        file = pyarrow.PythonFile(self._feed, mode="r")
        self._stream = pyarrow.CompressedInputStream(file, self._codec)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        try:
            piece = self._stream.read(1 if self._fine else len(view))
        except OSError as error:
            if self._fine:
                cause = " ".join(str(error).split())
                if "data check" in cause or "checksum" in cause:
                    cause += " (the checksum: any row of this file may be altered)"
                place = f"byte {self._feed.position:,} of {self._path.stat().st_size:,}"
                raise ArchiveDamage(f"{cause} at {place}") from None
            self._go_fine()
            return self.readinto(buffer)
        view[: len(piece)] = piece
        self._done += len(piece)
        return len(piece)

    def _go_fine(self) -> None:
        fine_from = self._feed.before
        self._feed.close()
        self._open(fine_from)
        self._fine = True
        left = self._done
        while left:
            left -= len(self._stream.read(min(left, BUFFER_BYTES)))

    def close(self) -> None:
        self._feed.close()
        super().close()
