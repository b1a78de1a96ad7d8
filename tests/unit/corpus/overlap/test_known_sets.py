"""Public sets are known by their content, whatever the file is called."""

from __future__ import annotations

import re

import pytest

from pipeline.corpus.overlap import known_sets
from pipeline.corpus.overlap.known_sets import (
    KNOWN_SETS,
    SKETCH,
    Edition,
    KnownSet,
    fingerprint_of,
    recognise,
)

IDS = [f"{number:016x}" for number in range(40)]


@pytest.fixture(autouse=True)
def _own_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    edition = Edition(fingerprint_of(IDS), tuple(IDS[:SKETCH]))
    sets = (KnownSet("Exam", 40, "exam", (edition,)), KnownSet("Quiz", 3, r"quiz"))
    monkeypatch.setattr(known_sets, "KNOWN_SETS", sets)


@pytest.mark.parametrize(
    ("name", "ids", "known", "state"),
    [
        ("x.jsonl", IDS[::-1] + IDS, "Exam", "complete"),
        ("x.jsonl", IDS[:20], "Exam", "partial"),
        ("x.jsonl", [*IDS[:-1], "f" * 16], "Exam", "changed"),
        ("Exam_v2.jsonl", ["f" * 16], "Exam", "changed"),
        ("quiz.jsonl", ["a", "b", "c"], "Quiz", "complete"),
        ("quiz.jsonl", ["a", "b"], "Quiz", "partial"),
        ("quiz.jsonl", ["a", "b", "c", "d"], "Quiz", "changed"),
        ("exam/x.jsonl", IDS[-5:], None, "own"),
    ],
)
def test_states(name: str, ids: list[str], known: str | None, state: str) -> None:
    found = recognise(name, ids)
    assert (found.known, found.state) == (known, state)


def test_the_shipped_registry_is_well_formed() -> None:
    names = [one.name for one in KNOWN_SETS]
    assert len(set(names)) == len(names) == 9
    for one in KNOWN_SETS:
        re.compile(one.pattern)
        for edition in one.editions:
            assert re.fullmatch("[0-9a-f]{16}", edition.fingerprint)
            assert list(edition.sketch) == sorted(set(edition.sketch))
            assert len(edition.sketch) == SKETCH


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("aime24.jsonl", "AIME 2024"),
        ("AIME_2025.parquet", "AIME 2025"),
        ("aime2026.json", "AIME 2026"),
        ("math-500.jsonl", "MATH-500"),
        ("HARP.jsonl", "HARP"),
        ("sharp.jsonl", None),
        ("olympiad_bench_en.jsonl", "OlympiadBench-EN"),
    ],
)
def test_shipped_names(name: str, known: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_sets, "KNOWN_SETS", KNOWN_SETS)
    assert recognise(name, ["f" * 16]).known == known
