"""One tiny base for all tests of the room."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tiny import write_tiny_base


@pytest.fixture(scope="package")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer Llama with tied embeddings."""
    return write_tiny_base(tmp_path_factory.mktemp("release") / "base")
