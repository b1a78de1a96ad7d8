"""Tasks: shares, determinism, and that every gold is a smallest cure."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random

import pytest

from pipeline.base.errors import UserError
from pipeline.hardware.gym.codes import CODES, FITS_NOT
from pipeline.hardware.gym.environment import Environment
from pipeline.hardware.gym.footprint_families import Logits
from pipeline.hardware.gym.log_families import OneFault
from pipeline.hardware.gym.memory_families import Checkpointing, ZeroMemory
from pipeline.hardware.gym.tasks import COMPUTED, FAMILIES, Task, draw, fresh, split

Gyms = dict[str, Environment]


def tiers(tasks: tuple[Task, ...]) -> Counter[object]:
    return Counter(task.metadata["tier"] for task in tasks)


def test_splits_have_their_sizes_and_tiers(gyms: Gyms) -> None:
    assert tiers(gyms["train"].tasks) == {"diagnosis": 120, "two_faults": 240, "computed": 840}
    assert tiers(gyms["hard"].tasks) == {"two_faults": 40, "computed": 160}
    assert tiers(gyms["test"].tasks) == {"diagnosis": 24, "two_faults": 49, "computed": 171}


def test_computed_families_have_equal_shares(gyms: Gyms) -> None:
    counts = Counter(t.metadata["family"] for t in gyms["train"].tasks)
    assert {counts[family.FAMILY] for family in COMPUTED} == {84}


def test_no_prompt_or_id_occurs_twice(gyms: Gyms) -> None:
    tasks = [t for gym in gyms.values() for t in gym.tasks] + fresh(0, 100) + fresh(1, 100)
    assert len({t.prompt for t in tasks}) == len({t.id for t in tasks}) == 1200 + 200 + 244 + 200


def test_same_seed_same_tasks() -> None:
    assert [t.prompt for t in fresh(7, 30)] == [t.prompt for t in fresh(7, 30)]
    assert [t.gold for t in split("hard")] == [t.gold for t in split("hard")]


def test_metadata_tells_what_a_task_takes(gyms: Gyms) -> None:
    for task in gyms["test"].tasks:
        told = task.metadata
        assert told["reasoning_depth"] == len(list(told["computations"]))  # type: ignore[call-overload]
        assert told["interaction"]
        assert told["split"] == "test"
        if told["tier"] == "computed":
            assert int(str(told["reasoning_depth"])) >= 5
            assert set(task.gold.intermediates) == set(task.quantities)
            assert len(task.gold.codes) >= 2


def test_naive_estimates_fail(gyms: Gyms) -> None:
    fails = [t.metadata["naive_fails"] for t in gyms["train"].tasks]
    computed = [failed for failed in fails if failed is not None]
    assert len(computed) == 840
    assert sum(map(bool, computed)) / 840 >= 0.9
    hard = [t.metadata["naive_fails"] for t in gyms["hard"].tasks]
    assert False not in hard


def test_every_gold_cures(gyms: Gyms) -> None:
    for gym in gyms.values():
        for task in gym.tasks:
            after = task.case.cured(task.gold.fix).gold()
            assert after is not None, task.id
            assert (after.codes, dict(after.fix)) == ((), {}), task.id


def test_no_part_of_a_gold_cures(gyms: Gyms) -> None:
    for task in gyms["test"].tasks:
        names = list(task.gold.fix)
        for size in range(len(names)):
            for some in itertools.combinations(names, size):
                part = {name: task.gold.fix[name] for name in some}
                after = task.case.cured(part).gold()
                assert after is None or after.codes, (task.id, part)


def test_golds_use_codes_and_fields_of_the_text(gyms: Gyms) -> None:
    named = set()
    for task in gyms["train"].tasks:
        assert set(task.gold.fix) <= task.fields
        named |= set(task.gold.codes)
    assert named == set(CODES)


def test_prompt_names_no_family_and_memory_errors_are_true(gyms: Gyms) -> None:
    for task in gyms["hard"].tasks:
        assert str(task.metadata["family"]) not in task.prompt
        log = task.prompt.split("## Log")[1]
        if task.metadata["tier"] == "computed" and "out of memory" in log:
            assert FITS_NOT & set(task.gold.codes), task.id


def test_each_family_has_many_answers() -> None:
    for family in FAMILIES:
        rng = Random(3)
        golds = [draw(family, rng, must_fail=False)[1] for _ in range(100)]
        most = Counter(gold.codes for gold in golds).most_common(1)[0][1]
        assert most <= 70, family.FAMILY


def test_what_cannot_be_cured_has_no_gold() -> None:
    # No stage, level, optimizer, chunk, split or sample count is small enough.
    assert ZeroMemory(14.0, 2, 0, 1, 4, 8, 14.6, 1.0, 1.0, 1.0, 1.0).gold() is None
    assert Checkpointing(40, 5120, 40, 4096, "none", 2, 1, 2, 1, 8, 22.1, 22.0, 1.0).gold() is None
    assert Logits(256_000, 4096, 0, 1, 4, 2, 8, 14.6, 14.0, 1.0, 1.0).gold() is None


def test_a_named_fault_has_no_naive_reading() -> None:
    case = OneFault.draw(Random(1))
    assert case.naive() is case


def test_unknown_split_and_no_tasks_are_refused() -> None:
    with pytest.raises(UserError, match=r"no split 'easy'. Name one of train, hard, test"):
        split("easy")
    with pytest.raises(UserError, match=r"0 fresh tasks\. Ask for at least 1"):
        fresh(1, 0)


def test_a_family_without_tasks_is_a_bug() -> None:
    class Healthy(ZeroMemory):
        def gold(self) -> None:
            return None

    with pytest.raises(RuntimeError, match="Healthy: no task"):
        draw(Healthy, Random(0), must_fail=False)
