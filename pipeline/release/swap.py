"""Put one folder in the place of another, in one step where the kernel can.

Linux exchanges two names atomically by renameat2(2) with RENAME_EXCHANGE. Where
that is missing (other systems, some network file systems) the old folder is
renamed away and the new one in; publish.py mends the gap after a kill.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.base.artifacts import fsync_folder
from pipeline.base.errors import UserError

AT_FDCWD = -100
RENAME_EXCHANGE = 2
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
NOT_RENAMEABLE = (errno.EBUSY, errno.EXDEV)
"""A mount point, or two file systems: no way of renaming gets over these."""


@contextmanager
def renaming(target: Path) -> Iterator[None]:
    """Say of a `target` that cannot be renamed what to do about it."""
    try:
        yield
    except OSError as error:
        if error.errno not in NOT_RENAMEABLE:
            raise
        raise UserError(
            f"{target}: is a mount point or lies on another file system, "
            f"so that it cannot be replaced whole ({error.strerror})",
            f"Unmount it, or mount the folder that holds {target.name}/ instead.",
        ) from None


def exchange(first: Path, second: Path) -> bool:
    """Exchange two existing names atomically; False when this system cannot.

    Raises:
        OSError: the exchange failed for another reason, e.g. a name is missing.
    """
    library = ctypes.CDLL(None, use_errno=True)
    try:
        renameat2 = library.renameat2
    except AttributeError:
        return False
    renameat2.argtypes = [
        ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint,
    ]  # fmt: skip
    ctypes.set_errno(0)
    names = os.fsencode(first), os.fsencode(second)
    if renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(first))


def move_in(new: Path, target: Path, old: Path) -> None:
    """Put folder `new` at `target`; what was there ends at `new` or at `old`.

    All three lie on one file system; `old` must not exist. Durable on return.

    Raises:
        UserError: `target` is a mount point or lies on another file system.
    """
    with renaming(target):
        if not target.exists():
            new.rename(target)
        elif not exchange(new, target):
            target.rename(old)
            new.rename(target)
    for folder in {target.parent, new.parent, old.parent}:
        fsync_folder(folder)
