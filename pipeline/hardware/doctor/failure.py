"""The one line that a failed run is told: called by the train stage, which then fails as before.

Reads the run's folder; writes the error's text to ended.txt there, for later questions.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from pipeline.base.errors import UserError
from pipeline.hardware.doctor.diagnosis import diagnose
from pipeline.hardware.doctor.folder import read_folder
from pipeline.hardware.doctor.record import Line

ENDED = "ended.txt"
"""What ended the last attempt of a run; a new attempt takes it away."""


def failure_line(run: Path, said: str) -> str:
    """What the doctor makes of a run that just failed.

    Args:
        said: the text of the error that ended it.
    """
    try:
        record = read_folder(run)
    except UserError as error:
        return f"diagnosis: unknown; {error}"
    record.lines.extend(Line("error", n, text) for n, text in enumerate(said.split("\n"), 1))
    # A full disk may be the very fault, and the error itself must reach the user.
    with contextlib.suppress(OSError):
        (run / ENDED).write_text(said + "\n", encoding="utf-8")
    return f"{diagnose(record).in_a_line()}. More: make diagnose RUN={run}"
