"""What the watcher can see of a task."""

from __future__ import annotations

import time

import pytest

from pipeline.corpus.execution.watch import (
    DONE,
    NO_ROW,
    ROW,
    STAMP,
    PoisonRow,
    Watch,
    inline_watch,
    new_slots,
)


def test_the_row_at_work_is_seen_with_its_time() -> None:
    slots = new_slots()
    watch = Watch(slots, {})
    assert slots[ROW] == NO_ROW
    before = time.process_time_ns()
    assert watch.enter(0) is None
    assert slots[ROW] == 0
    assert before <= slots[STAMP] <= time.process_time_ns()
    watch.done()
    assert (slots[ROW], slots[DONE]) == (NO_ROW, 1)
    watch.done(5)
    assert slots[DONE] == 6


def test_poison_is_told_and_its_body_left_out() -> None:
    slots = new_slots()
    watch = Watch(slots, {3: "timeout"})
    assert (watch.enter(3), watch.enter(4)) == ("timeout", None)
    with pytest.raises(PoisonRow) as caught, watch.guarded(3):
        raise AssertionError("the body runs")
    assert caught.value.reason == "timeout"
    assert (slots[ROW], slots[DONE]) == (NO_ROW, 1)


def test_no_memory_costs_the_row() -> None:
    slots = new_slots()
    with pytest.raises(PoisonRow, match="memory"), Watch(slots, {}).guarded(2):
        raise MemoryError
    assert (slots[ROW], slots[DONE]) == (NO_ROW, 1)


def test_a_bug_leaves_its_row_at_work() -> None:
    slots = new_slots()
    with pytest.raises(KeyError), Watch(slots, {}).guarded(2):
        raise KeyError
    assert slots[ROW] == 2


def test_a_watch_without_a_watcher() -> None:
    watch = inline_watch()
    with watch.guarded(0):
        pass
    assert watch.poison == {}
