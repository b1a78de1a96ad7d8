"""What a worker is born with: nothing of the stage's, and a parent to die with."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from pipeline.corpus.execution.executor import run_shards
from pipeline.corpus.execution.spawner import Spawner, Worker, import_path
from tests.unit.corpus.execution import tasks
from tests.unit.corpus.execution.support import quiet, settings


def test_a_worker_shares_no_file_and_no_thread_with_the_stage(tmp_path: Path) -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    with (tmp_path / "lock").open("w"):
        folders = run_shards(
            "facts", tasks.facts, None, [0, 1, 2], tmp_path, settings(workers=1), quiet()
        )
    done.set()
    thread.join()
    texts = [(folder / "facts.txt").read_text().split("\n") for folder in folders]
    (pid, parent, threads, omp, cwd, *files), *_ = texts
    assert {text[0] for text in texts} == {pid}  # one worker for all shards
    assert os.getpid() not in (int(pid), int(parent))
    assert (threads, omp, cwd) == ("1", "1", str(Path.cwd()))
    assert [one for one in files if str(tmp_path) in one and "facts.txt" not in one] == []
    assert len([one for one in files if one.startswith("socket:")]) == 1


def test_workers_end_with_the_process_that_forked_them() -> None:
    spawner = Spawner([])
    worker = Worker(spawner)
    assert Path(f"/proc/{worker.pid}").exists()
    os.kill(spawner.pid, signal.SIGKILL)
    with pytest.raises(EOFError):
        worker.connection.recv_bytes()
    assert worker.end(kill=True) == -signal.SIGKILL
    spawner.close()


def test_a_worker_ends_when_its_line_closes() -> None:
    spawner = Spawner([])
    worker = Worker(spawner)
    assert worker.end(kill=False) == 0
    assert worker.cpu_ns() == 0
    assert Worker(spawner).end(kill=True) == -signal.SIGKILL
    spawner.close()


def test_the_import_path_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("here")
    assert import_path().split(os.pathsep)[0] == str(tmp_path / "here")
