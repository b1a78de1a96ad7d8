"""Rows done and the share of all bytes done, from shards finished and at work.

Called by executor.py and ray_backend.py; prints through base/progress.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.base.progress import Progress


class Meter:
    """Adds up shards for a progress line.

    Args:
        progress: counts rows; its total is unknown.
        sizes: bytes of each shard, or any other measure of its work.
    """

    def __init__(self, progress: Progress, sizes: Sequence[int]) -> None:
        self._progress, self._sizes = progress, sizes
        self._skipped_bytes = 0
        self._finished: list[tuple[int, int]] = []
        self._skipped = 0
        self._reported = 0

    def skip(self, number: int) -> None:
        """A shard was finished by an earlier run; its rows would falsify the rate."""
        self._skipped += 1
        self._skipped_bytes += self._sizes[number]

    def finish(self, number: int, rows: int) -> None:
        """A shard is finished; any thread may say so."""
        self._finished.append((number, rows))

    def report(self, at_work: Sequence[tuple[int, int]]) -> None:
        """Bring the progress line up to date.

        Args:
            at_work: number and rows done of the shards at work.
        """
        finished = list(self._finished)
        rows = sum(count for _, count in finished)
        size = sum(self._sizes[number] for number, _ in finished)
        everything = sum(self._sizes) - self._skipped_bytes
        done = float(size)
        if rows:
            done += sum(min(count * size / rows, self._sizes[number]) for number, count in at_work)
        total = rows + sum(count for _, count in at_work)
        note = f"{self._skipped + len(finished)}/{len(self._sizes)} shards"
        share = done / everything if everything else None
        self._progress.add(total - self._reported, note, share)
        self._reported = total
