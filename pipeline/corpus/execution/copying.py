"""Copies parts of a file into another one without reading them into the process.

Called by the corpus stages for rows that pass unchanged: the kernel copies page by page, or
shares the blocks where the file system can.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

BLOCK_BYTES = 8 * 2**20
UNSUPPORTED = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}
"""Faults of copy_file_range(2) between files or kernels that it does not work for."""


def copy_parts(source: Path, parts: Iterable[tuple[int, int]], target: Path) -> int:
    """Write these parts of a file, one after another, as a new file; return its bytes.

    Args:
        parts: first and past-the-end byte of each.

    Raises:
        EOFError: the file ends within a part.
    """
    with source.open("rb") as reader, target.open("wb") as writer:
        written = 0
        for start, stop in parts:
            _copy(reader.fileno(), writer.fileno(), start, stop)
            written += stop - start
    return written


def _copy(reader: int, writer: int, start: int, stop: int) -> None:
    while start < stop:
        copied = _copy_some(reader, writer, start, stop - start)
        if copied == 0:
            raise EOFError(f"no bytes at {start}")
        start += copied


def _copy_some(reader: int, writer: int, start: int, count: int) -> int:
    """Append up to `count` bytes; return how many, 0 at the end of the file."""
    try:
        copied = os.copy_file_range(reader, writer, count, offset_src=start)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        copied = 0
    if copied:
        return copied
    block = memoryview(os.pread(reader, min(count, BLOCK_BYTES), start))
    written = 0
    while written < len(block):
        written += os.write(writer, block[written:])
    return written
