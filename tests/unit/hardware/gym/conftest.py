"""Splits are made once for all tests of the gym."""

from __future__ import annotations

import pytest

from pipeline.hardware.gym.environment import Environment, load_environment
from pipeline.hardware.gym.tasks import SPLITS


@pytest.fixture(scope="session")
def gyms() -> dict[str, Environment]:
    """Split → its environment."""
    return {name: load_environment(name) for name in SPLITS}
