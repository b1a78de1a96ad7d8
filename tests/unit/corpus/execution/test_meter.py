"""The time left follows bytes, of finished shards and of those at work."""

from __future__ import annotations

import io

from pipeline.base.progress import Progress
from pipeline.corpus.execution.meter import Meter


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


def lines(clock: Clock) -> tuple[Progress, io.StringIO]:
    stream = io.StringIO()
    progress = Progress("judge", "rows", None, stream=stream, every_seconds=1.0, now=clock)
    return progress, stream


def test_time_left_from_bytes_of_finished_shards() -> None:
    clock = Clock()
    progress, stream = lines(clock)
    meter = Meter(progress, [100, 100, 200])
    clock.time = 10.0
    meter.finish(0, 50)
    meter.report([])
    assert stream.getvalue() == "judge: 50 rows · 5 rows/s · ETA 30s · 1/3 shards\n"


def test_shards_at_work_count_by_rows_done_so_far() -> None:
    clock = Clock()
    progress, stream = lines(clock)
    meter = Meter(progress, [100, 100, 200])
    clock.time = 10.0
    meter.finish(0, 50)
    meter.report([(1, 25), (2, 1000)])  # 50 bytes, and never more than the shard has
    assert stream.getvalue() == "judge: 1,075 rows · 108 rows/s · ETA 1s · 1/3 shards\n"


def test_before_the_first_shard_there_is_no_estimate() -> None:
    clock = Clock()
    progress, stream = lines(clock)
    meter = Meter(progress, [100, 100])
    clock.time = 10.0
    meter.report([(0, 20)])
    assert stream.getvalue() == "judge: 20 rows · 2 rows/s · 0/2 shards\n"


def test_shards_of_an_earlier_run_count_as_shards_only() -> None:
    clock = Clock()
    progress, stream = lines(clock)
    meter = Meter(progress, [300, 100, 100])
    meter.skip(0)
    clock.time = 10.0
    meter.finish(1, 50)
    meter.report([])
    assert stream.getvalue() == "judge: 50 rows · 5 rows/s · ETA 10s · 2/3 shards\n"


def test_rows_of_a_shard_that_begins_again_are_not_counted_twice() -> None:
    progress, _ = lines(Clock())
    meter = Meter(progress, [100])
    meter.report([(0, 30)])
    meter.report([(0, 10)])
    meter.finish(0, 40)
    meter.report([])
    assert progress.done == 40
