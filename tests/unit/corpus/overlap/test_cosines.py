"""Neighbours are found by problem id, with the protected problem's place in the index."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.base.artifacts import write_jsonl
from pipeline.base.errors import UserError
from pipeline.corpus.overlap.cosines import NEIGHBOURS, Cosines, write_cosines
from tests.support.overlap import protected

ITEMS = [protected("One?", "a"), protected("Two?", "a"), protected("One?", "b")]


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def neighbour(number: int, item: int, cosine: float) -> dict[str, object]:
    asked = ITEMS[item]
    return {"id": f"{number:016x}", "set": asked.source, "protected": asked.id, "cosine": cosine}


def test_look_up() -> None:
    rows = [neighbour(2**63, 2, 0.9), neighbour(5, 1, 0.8123), neighbour(2**63, 0, 0.91)]
    write_jsonl(NEIGHBOURS, [*rows, neighbour(7, 1, 0.74)])
    assert write_cosines(ITEMS, 0.75, Path("c.npy")) == 3
    found = Cosines.load(Path("c.npy")).of([7, 5, 2**63, 5])
    assert found == {1: {1: 0.8123}, 2: {0: 0.91, 2: 0.9}, 3: {1: 0.8123}}


def test_no_neighbours() -> None:
    write_jsonl(NEIGHBOURS, [])
    assert write_cosines(ITEMS, 0.75, Path("c.npy")) == 0
    assert Cosines.load(Path("c.npy")).of([1, 2]) == {}


def test_a_problem_that_is_not_protected_is_refused() -> None:
    write_jsonl(NEIGHBOURS, [neighbour(1, 0, 0.9) | {"set": "c"}])
    with pytest.raises(UserError, match=r"neighbours\.jsonl:1: c has no problem"):
        write_cosines(ITEMS, 0.75, Path("c.npy"))
