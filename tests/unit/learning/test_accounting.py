"""Passes and tokens are those of the bins that the sampler hands out, one by one."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pipeline.base.curriculum import Curriculum, Stage
from pipeline.base.errors import UserError
from pipeline.learning.accounting import (
    Account,
    account_of,
    passes,
    planned_sentence,
    sources_of,
    times_handed_out,
)
from pipeline.learning.data import PackedData
from pipeline.learning.schedule import Replan
from tests.support.packed import TWO_STAGES, TWO_TIERS, make_job, write_packed
from tests.support.settings import make_params

STAGES = [Stage(one["sequence_tokens"], one["share"], one["tiers"]) for one in TWO_STAGES]
STARTS = [0, 9]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_packed(tmp_path_factory.mktemp("accounting"), buckets=TWO_TIERS)


@pytest.fixture(scope="module")
def data(folder: Path) -> PackedData:
    return PackedData(folder)


def curriculum(data: PackedData) -> Curriculum:
    return Curriculum(STAGES, data.buckets, 256, 5)


def handed(data: PackedData, first: int, last: int) -> Counter[int]:
    """Bins of these steps, counted one by one."""
    sampler = curriculum(data)
    steps = (sampler.slots(step, STARTS) for step in range(first, last))
    return Counter(int(one) for slots in steps for slot in slots for one in slot.bins)


@pytest.mark.parametrize("steps", [0, 1, 8, 9, 10, 30])
def test_bins_are_counted_as_they_are_handed_out(data: PackedData, steps: int) -> None:
    sampler = curriculum(data)
    times = times_handed_out(data, sampler, sampler.taken(steps, STARTS))
    expected = handed(data, 0, steps)
    assert times.tolist() == [expected[number] for number in range(len(data))]


def test_stages_tiers_and_sources_are_exact(data: PackedData, folder: Path) -> None:
    account = Account(data, curriculum(data), STARTS, 21)
    tokens = [
        sum(data.sizes[number] * times for number, times in handed(data, *steps).items())
        for steps in ((0, 9), (9, 21))
    ]
    stages = account.of_stages()
    assert [one["tokens"] for one in stages] == tokens
    assert [one["steps"] for one in stages] == [9, 12]
    assert [one["sequence_tokens"] for one in stages] == [32, 64]

    times = handed(data, 0, 21)
    given_by_tier: Counter[str] = Counter()
    held_by_tier: Counter[str] = Counter()
    for bucket in data.buckets:
        for number in range(bucket.first, bucket.first + bucket.bins):
            given_by_tier[bucket.tier] += int(data.sizes[number]) * times[number]
            held_by_tier[bucket.tier] += int(data.sizes[number])
    expected = {tier: given_by_tier[tier] / held for tier, held in held_by_tier.items()}
    assert account.of_tiers() == pytest.approx(expected, abs=1e-4)

    given_by_source: Counter[str] = Counter()
    held_by_source: Counter[str] = Counter()
    for number in range(len(data)):
        for document in range(data.first_document[number], data.first_document[number + 1]):
            source = f"source-{document % 3}.jsonl"
            given_by_source[source] += int(data.lengths[document]) * times[number]
            held_by_source[source] += int(data.lengths[document])
    expected = {name: given_by_source[name] / held for name, held in held_by_source.items()}
    assert account.of_sources(sources_of(data, folder)) == pytest.approx(expected, abs=1e-4)
    assert list(expected) == sorted(expected)
    assert sum(given_by_source.values()) == sum(tokens)


def test_whole_passes_are_whole_numbers(tmp_path: Path) -> None:
    data = PackedData(write_packed(tmp_path / "data", sequences=12))
    sampler = Curriculum([Stage(64, 1.0)], data.buckets, 4 * 64, 0)
    account = Account(data, sampler, [0], 6)
    assert account.of_tiers() == {"all": 2.0}
    assert set(account.of_sources(sources_of(data, tmp_path / "data")).values()) == {2.0}
    assert account.of_stages()[0]["tokens"] == 2 * data.tokens.size


def test_what_is_never_asked_for_has_no_pass(data: PackedData) -> None:
    only = Curriculum([Stage(64, 1.0, {"hard": 1.0})], data.buckets, 256, 0)
    found = Account(data, only, [0], 5).of_tiers()
    assert found["easy"] == 0.0
    assert found["hard"] > 1


def test_a_label_of_several_parts_is_one_figure() -> None:
    found = passes(["b", "a", "b"], np.array([10, 5, 30]), np.array([20, 5, 0]))
    assert found == {"b": 0.5, "a": 1.0}


def test_a_replan_shows_in_what_was_done(
    data: PackedData, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job = make_job(tmp_path / "base", folder, make_params(), stages=TWO_STAGES)
    plan = [Replan(0, 40, "plan")]
    cut = [*plan, Replan(10, 20, "budget")]
    planned, done = (account_of(job, data, journal).of_stages() for journal in (plan, cut))
    assert [one["steps"] for one in planned] == [20, 20]
    assert [one["steps"] for one in done] == [14, 6]
    sentence = planned_sentence(job, data, plan)
    assert sentence.startswith("stages: 20 steps of 32 tokens, 20 steps of 64 tokens; passes: easy")


def test_documents_that_do_not_match_are_refused(tmp_path: Path) -> None:
    packed = write_packed(tmp_path / "data")
    data = PackedData(packed)
    path = packed / "documents.jsonl"
    path.write_text(json.dumps({"source": "a"}) + "\n")
    with pytest.raises(UserError, match=rf"1 documents, the arrays hold {len(data.lengths)}"):
        sources_of(data, packed)
    path.write_text('{"id": "x"}\n')
    with pytest.raises(UserError, match="cannot be read"):
        sources_of(data, packed)
    path.unlink()
    with pytest.raises(UserError, match=r"documents\.jsonl: cannot be read"):
        sources_of(data, packed)
