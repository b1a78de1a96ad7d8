"""Tiny bases, built once: making one takes about a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tiny import write_tiny_base


@pytest.fixture(scope="session", params=["llama", "qwen3"])
def any_base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp(request.param) / "base", request.param)


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp("tiny") / "base", "qwen3")
