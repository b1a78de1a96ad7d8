"""Which backends a device gets, and what is said of the others."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from pipeline.base.errors import UserError
from pipeline.base.params_train import TrainParams
from pipeline.learning.attention import choose, table
from pipeline.learning.attention.table import BACKENDS, ELSEWHERE, first_fitting

HALF, FULL, BRAIN = torch.float16, torch.float32, torch.bfloat16


@pytest.fixture(autouse=True)
def newest_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91_000)


def test_the_setting_names_the_table() -> None:
    names = TrainParams.model_fields["attention"].annotation.__args__  # type: ignore[union-attr]
    assert set(names) == {"auto", *BACKENDS}
    assert set(ELSEWHERE) == set(BACKENDS)


@pytest.mark.parametrize(
    ("capability", "dtype", "head_dim", "names"),
    [
        ((9, 0), BRAIN, 128, ("cudnn", "flex", "varlen", "sdpa")),
        ((8, 0), HALF, 64, ("cudnn", "varlen", "flex", "sdpa")),
        ((10, 0), BRAIN, 128, ("cudnn", "varlen", "flex", "sdpa")),
        ((9, 0), BRAIN, 96, ("cudnn", "varlen", "sdpa")),
        ((9, 0), BRAIN, 256, ("varlen", "sdpa")),
        ((8, 9), BRAIN, 256, ("sdpa",)),
        ((9, 0), BRAIN, 20, ("sdpa",)),
        ((9, 0), FULL, 128, ("sdpa",)),
        ((7, 5), HALF, 128, ("sdpa",)),
        (None, BRAIN, 128, ("sdpa",)),
    ],
)
def test_usable_backends_fastest_first(
    capability: Any, dtype: torch.dtype, head_dim: int, names: tuple[str, ...]
) -> None:
    choice = choose("auto", capability, dtype, head_dim)
    assert choice.names == names
    assert {name for name, _ in choice.refused} == set(BACKENDS) - set(names)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("sdpa", ("sdpa",)),
        ("varlen", ("varlen",)),
        ("flex", ("flex", "varlen")),
        ("cudnn", ("cudnn", "varlen")),
    ],
)
def test_a_wanted_backend_comes_first(wanted: str, names: tuple[str, ...]) -> None:
    assert choose(wanted, (9, 0), BRAIN, 128).names == names


@pytest.mark.parametrize(
    ("wanted", "capability", "dtype", "head_dim", "reason"),
    [
        ("varlen", None, BRAIN, 128, "needs a CUDA device of capability 8.0"),
        ("cudnn", (7, 5), HALF, 128, "needs capability 8.0 or higher, not 7.5"),
        ("flex", (9, 0), FULL, 128, "no kernel for float32"),
        ("cudnn", (9, 0), BRAIN, 192, "no kernel for heads of 192"),
        ("flex", (9, 0), BRAIN, 96, "no kernel for heads of 96"),
    ],
)
def test_a_wanted_backend_that_cannot_work_is_refused(
    wanted: str, capability: Any, dtype: torch.dtype, head_dim: int, reason: str
) -> None:
    with pytest.raises(UserError, match=f"train.attention: {wanted} .*{reason}.*auto"):
        choose(wanted, capability, dtype, head_dim)


def test_a_torch_without_the_feature_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: None)
    with pytest.raises(UserError, match=re.escape(f"cudnn is not in torch {torch.__version__}")):
        choose("cudnn", (9, 0), BRAIN, 128)
    assert "cudnn" not in choose("auto", (9, 0), BRAIN, 128).names


def test_flex_needs_a_mask_that_knows_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert table._flex_present()

    class Older:
        @classmethod
        def from_kv_blocks(cls, kv_num_blocks: int, kv_indices: int) -> None: ...

    monkeypatch.setattr(table, "BlockMask", Older)
    assert "flex" not in choose("auto", (9, 0), BRAIN, 128).names


def test_the_fastest_that_takes_the_documents() -> None:
    names = ("cudnn", "varlen", "sdpa")
    assert first_fitting(names, (256, 256)) == "cudnn"
    assert first_fitting(names, (256, 255)) == "varlen"
    assert first_fitting(names, (255,)) == "varlen"
