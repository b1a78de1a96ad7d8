"""Many workers, any cut, any interruption: the same bytes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pipeline.base.artifacts import MARKER
from pipeline.base.errors import UserError
from pipeline.base.progress import Progress
from pipeline.corpus.execution.executor import run_shards
from tests.support.closure import ROOT
from tests.unit.corpus.execution import tasks
from tests.unit.corpus.execution.support import (
    EXPECTED,
    expected_without,
    merged,
    quiet,
    run,
    settings,
)

DRIVER = """
from pathlib import Path
from tests.unit.corpus.execution.support import run
run(Path({folder!r}), {{40: "sleep"}}, workers=1, row_seconds=100)
"""


@pytest.mark.parametrize(("workers", "shard_bytes"), [(1, 10**6), (1, 37), (4, 200), (4, 1)])
def test_workers_and_cuts_change_no_byte(tmp_path: Path, workers: int, shard_bytes: int) -> None:
    folders = run(tmp_path, {7: "exit"}, shard_bytes, workers=workers)
    assert merged(folders) == expected_without(7)
    assert merged(folders, "lost.txt") == "7 crash\n"


def test_the_folders_are_in_order_and_whole(tmp_path: Path) -> None:
    folders = run(tmp_path)
    assert [folder.name for folder in folders] == [f"{n:05d}" for n in range(len(folders))]
    assert all((folder / MARKER).is_file() for folder in folders)
    assert sorted(folders[0].parent.iterdir()) == folders


def test_nothing_to_do_is_no_folder(tmp_path: Path) -> None:
    assert run_shards("copy", tasks.copy, None, [], tmp_path, settings(), quiet()) == []


def test_finished_shards_are_not_done_again(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        run(tmp_path, {40: "user"}, workers=1)
    home = tmp_path / "scratch/copy"
    finished = {folder.name: folder.stat().st_ino for folder in home.iterdir()}
    assert finished
    folders = run(tmp_path, workers=1)
    assert merged(folders) == EXPECTED
    assert finished.items() <= {folder.name: folder.stat().st_ino for folder in folders}.items()


def test_torn_folders_and_those_of_another_cut_are_done_again(tmp_path: Path) -> None:
    folders = run(tmp_path, shard_bytes=100)
    (folders[1] / MARKER).unlink()
    (folders[1] / "out.txt").write_text("torn")
    (folders[0].parent / ".00002.abc.tmp").mkdir()
    assert merged(run(tmp_path, shard_bytes=100)) == EXPECTED
    coarse = run(tmp_path, shard_bytes=400)
    assert merged(coarse) == EXPECTED
    assert sorted(coarse[0].parent.iterdir()) == coarse


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_end_of_the_stage_ends_workers_and_keeps_shards(tmp_path: Path, number: int) -> None:
    program = DRIVER.format(folder=str(tmp_path))
    driver = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    _worker_in(tmp_path / "scratch/copy", "40")
    driver.send_signal(number)
    driver.communicate(timeout=60)  # returns when all who hold the pipe, workers too, have ended
    assert driver.returncode != 0
    finished = {one for one in (tmp_path / "scratch/copy").iterdir() if (one / MARKER).is_file()}
    assert finished
    before = {one: one.stat().st_ino for one in finished}
    folders = run(tmp_path)
    assert merged(folders) == EXPECTED
    assert {one: one.stat().st_ino for one in finished} == before


def _worker_in(home: Path, line: str) -> int:
    """Pid of the process that is writing the shard in which `line` comes next."""
    last = f'{int(line) - 1} {{"n": {int(line) - 1}}}\n'
    while True:
        for path in home.glob(".*.tmp/out.txt"):
            if path.read_text().endswith(last):
                for link in Path("/proc").glob("[0-9]*/fd/*"):
                    if _target(link) == str(path):
                        return int(link.parts[2])
        time.sleep(0.01)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def test_a_worker_killed_from_outside_loses_and_doubles_nothing(tmp_path: Path) -> None:
    home = tmp_path / "scratch/copy"
    killed: list[int] = []

    def kill() -> None:
        killed.append(_worker_in(home, "40"))
        (tmp_path / "happened").mkdir(exist_ok=True)  # the row does not sleep again
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    folders = run(tmp_path, {40: "sleep"}, witness=str(tmp_path), row_seconds=100)
    thread.join()
    assert len(killed) == 1
    assert (merged(folders, "lost.txt"), merged(folders)) == ("", EXPECTED)


def test_progress_shows_rows_and_shards(tmp_path: Path) -> None:
    stream = io.StringIO()
    progress = Progress("copy", "rows", None, stream=stream, every_seconds=0.0)
    folders = run(tmp_path, progress=progress)
    assert stream.getvalue().splitlines()[-1].startswith("copy: 60 rows")
    assert f"{len(folders)}/{len(folders)} shards" in stream.getvalue()
