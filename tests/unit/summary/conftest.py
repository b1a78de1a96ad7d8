"""One finished run, read once: evidence is immutable."""

from __future__ import annotations

import pytest

from pipeline.summary.evidence import Evidence, collect
from tests.support.finished_run import write_finished_run


@pytest.fixture(scope="session")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """Everything that a finished run leaves for its report."""
    folder = tmp_path_factory.mktemp("finished")
    write_finished_run(folder)
    return collect(folder)
