"""The tiny base of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.base.chat import Chat
from pipeline.base.prompt_variants import Prompts
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_tokenizer


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    write_tiny_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def prompts(base: Path) -> Prompts:
    return Prompts(base, make_params().prompt)


@pytest.fixture(scope="session")
def chat(prompts: Prompts) -> Chat:
    return prompts.main
