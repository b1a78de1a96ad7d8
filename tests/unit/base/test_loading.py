"""Faults of loading a base end in one line that says what to do."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
import transformers

from pipeline.base.errors import UserError
from pipeline.base.loading import load_base


@pytest.mark.parametrize(
    "place",
    [
        (transformers, "BitsAndBytesConfig"),
        (transformers.AutoModelForCausalLM, "from_pretrained"),
    ],
    ids=["settings", "model"],
)
@pytest.mark.parametrize(
    "error", [PackageNotFoundError("bitsandbytes"), ImportError("bitsandbytes is too old\nhelp")]
)
def test_nf4_without_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[Any, str], error: ImportError
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(transformers, "BitsAndBytesConfig", lambda **options: None)
    monkeypatch.setattr(*place, fail)
    with pytest.raises(UserError) as caught:
        load_base(tmp_path, dtype="float32", device="cpu", quantization="nf4")
    assert "bitsandbytes" in caught.value.problem
    assert "\n" not in str(caught.value)
    assert "train.base_quantization to none" in caught.value.remedy


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot load it"):
        load_base(tmp_path, dtype="float32", device="cpu")
