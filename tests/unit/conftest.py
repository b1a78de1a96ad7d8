"""What unit tests of several rooms share."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def embedded_base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """SmolLM2-135M-Instruct, converted once a session; some seconds, 270 MB."""
    folder = tmp_path_factory.mktemp("embedded") / "base"
    command = [sys.executable, "-m", "pipeline.embedded.model", str(folder)]
    subprocess.run(command, check=True)
    yield folder
    shutil.rmtree(folder)
