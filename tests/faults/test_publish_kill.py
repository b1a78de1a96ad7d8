"""Kill the publisher before each of its file operations, one at a time.

A forked child counts the audit events of file operations (open, rename, mkdir,
remove …) and leaves at the n-th by `os._exit`, as SIGKILL would make it. What it
left is judged first as it lies, then after the recovery of the next start.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pipeline.base.adapter_format import ADAPTER_FILES, CONFIG_FILE
from pipeline.release import swap
from pipeline.release.publish import publish, published_summary, recover
from tests.support.publishing import summary_of, write_source

WATCHED = ("open", "os.", "shutil.", "ctypes.dlsym")
KILLED, DONE = 77, 0


Work = Callable[[Path], object]

# Forked from a small server: this process may hold torch by now, which makes forks slow.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([__name__])


def die_at(number: int, work: Work, root: Path) -> None:
    """In the child: do the work, but leave before the `number`-th file operation."""
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event.startswith(WATCHED):
            count += 1
            if count == number:
                os._exit(KILLED)

    sys.addaudithook(hook)
    work(root)
    os._exit(DONE)


def killed_at(number: int, work: Work, root: Path) -> bool:
    """Whether `work` had a `number`-th file operation, before which its process died."""
    child = SERVER.Process(target=die_at, args=(number, work, root))
    child.start()
    child.join()
    assert child.exitcode in (KILLED, DONE)
    return child.exitcode == KILLED


def every_kill(tmp_path: Path, prepare: Work, work: Work) -> Iterator[Path]:
    """Yield one folder for each point at which `work` was killed; then the finished one."""
    for number in range(1, 1000):
        root = tmp_path / str(number)
        root.mkdir()
        prepare(root)
        killed = killed_at(number, work, root)
        yield root
        if not killed:
            assert number > 20, "the hook saw too few operations"
            return


def step_in_place(root: Path) -> int:
    """Step of the adapter in place, after the pair was found to be valid."""
    summary = published_summary(root)
    assert summary is not None, sorted(path.name for path in root.iterdir())
    assert sorted(p.name for p in (root / "adapter").iterdir()) == sorted(ADAPTER_FILES)
    assert (root / summary["checkpoint_path"]).is_dir()
    step = json.loads((root / "adapter" / CONFIG_FILE).read_text())["step"]
    assert summary["step"] == step
    return int(step)


def _publish(root: Path, step: int) -> None:
    publish(root, root / f"runs/k/checkpoint-{step}/adapter", summary_of(step), "partial")


def _one_is_published(root: Path) -> None:
    write_source(root, 1)
    _publish(root, 1)
    write_source(root, 2)


def _publish_second(root: Path) -> None:
    _publish(root, 2)


def _publish_second_without_exchange(root: Path) -> None:
    swap.exchange = lambda first, second: False
    _publish(root, 2)


def _publish_for_ever(root: Path) -> None:
    while True:
        for step in (1, 2):
            _publish(root, step)


def test_a_kill_at_any_point_leaves_a_valid_pair(tmp_path: Path) -> None:
    seen = set()
    for root in every_kill(tmp_path, _one_is_published, _publish_second):
        before = step_in_place(root)
        recover(root)
        assert step_in_place(root) == before
        assert {path.name for path in root.iterdir()} == {"adapter", "run_summary.json", "runs"}
        assert "incoming" not in json.loads((root / "run_summary.json").read_text())
        seen.add(before)
        _publish(root, 2)
        assert step_in_place(root) == 2
    assert seen == {1, 2}


def test_a_kill_during_the_first_publication_is_mended(tmp_path: Path) -> None:
    outcomes = set()
    for root in every_kill(tmp_path, lambda r: write_source(r, 2), _publish_second):
        recover(root)
        left = {path.name for path in root.iterdir()} - {"runs"}
        outcomes.add(frozenset(left))
        if left:
            assert step_in_place(root) == 2
    assert outcomes == {frozenset(), frozenset({"adapter", "run_summary.json"})}


def _somebody_elses(root: Path) -> None:
    write_source(root, 2)
    (root / "adapter").mkdir()
    (root / "adapter/mine").touch()


def test_a_kill_while_an_adapter_of_somebody_else_gives_way_loses_nothing(tmp_path: Path) -> None:
    kept_in = set()
    for root in every_kill(tmp_path, _somebody_elses, _publish_second):
        recover(root)
        found = [path.parent.name for path in root.glob("*/mine")]
        assert len(found) == 1
        kept_in.add(found[0])
        _publish(root, 2)
        assert step_in_place(root) == 2
        assert (root / "adapter.replaced/mine").is_file()
    assert kept_in == {"adapter", "adapter.replaced"}


def test_a_kill_where_names_cannot_be_exchanged_is_mended(tmp_path: Path) -> None:
    gaps = 0
    for root in every_kill(tmp_path, _one_is_published, _publish_second_without_exchange):
        gaps += not (root / "adapter").exists()
        recover(root)
        assert step_in_place(root) in (1, 2)
        assert not (root / ".publishing").exists()
    assert gaps == 1


def test_a_kill_during_the_recovery_is_mended_by_the_next(tmp_path: Path) -> None:
    def torn(root: Path) -> None:
        """The state between the swap and the last summary."""
        _one_is_published(root)
        number = 1
        while killed_at(number, _publish_second, root):
            if json.loads((root / "adapter" / CONFIG_FILE).read_text())["step"] == 2:
                break
            number += 1

    root = tmp_path / "torn"
    root.mkdir()
    torn(root)
    assert "incoming" in json.loads((root / "run_summary.json").read_text())
    number = 1
    while killed_at(number, recover, root):
        assert step_in_place(root) == 2
        number += 1
    assert number > 5
    assert step_in_place(root) == 2
    assert not (root / ".publishing").exists()


def test_sigkill_at_random_times(tmp_path: Path) -> None:
    chance = random.Random(0)
    _one_is_published(tmp_path)
    for _ in range(25):
        child = SERVER.Process(target=_publish_for_ever, args=(tmp_path,))
        child.start()
        time.sleep(chance.uniform(0.01, 0.08))
        child.kill()
        child.join()
        assert step_in_place(tmp_path) in (1, 2)
