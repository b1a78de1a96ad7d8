"""The worker that does algebra is bounded in time and memory, and is replaced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from pipeline.base import algebra_judge
from pipeline.base.algebra_judge import AlgebraJudge
from pipeline.base.errors import UserError

ENDLESS = "import time\nprint('ready', flush=True)\ntime.sleep(3600)\n"


def _process(judge: AlgebraJudge) -> subprocess.Popen[bytes]:
    worker = judge._worker
    assert worker is not None
    return worker


def test_a_judgement_is_remembered() -> None:
    with AlgebraJudge(seconds=60) as judge:
        assert judge._worker is None
        assert judge.judge("x+x", "2x") == "same"
        _process(judge).kill()
        assert judge.judge("x+x", "2x") == "same"


def test_a_dead_worker_is_replaced() -> None:
    with AlgebraJudge(seconds=60) as judge:
        assert judge.judge("x+x", "2x") == "same"
        first = _process(judge)
        first.kill()
        first.wait()
        assert judge.judge("x+x", "3x") == "given-up"
        assert judge.judge("x+x+x", "3x") == "same"
        second = _process(judge)
        assert second.pid != first.pid
    assert second.poll() is not None


def test_endless_work_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen

    def hanging(command: list[str], **options: object) -> object:
        return real([sys.executable, "-c", ENDLESS], **options)  # type: ignore[call-overload]

    with AlgebraJudge(seconds=0.2) as judge:
        monkeypatch.setattr(algebra_judge.subprocess, "Popen", hanging)
        started = time.monotonic()
        assert judge.judge("x", "y") == "given-up"
        assert judge._worker is None
        assert time.monotonic() - started < 60
    with AlgebraJudge(seconds=60) as judge:
        monkeypatch.setattr(algebra_judge.subprocess, "Popen", real)
        assert judge.judge("2x", "x+x") == "same"


def test_a_worker_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algebra_judge.sys, "executable", "/bin/false")
    with AlgebraJudge() as judge, pytest.raises(UserError, match="does not start"):
        judge.judge("x", "y")


def test_memory_is_bounded() -> None:
    program = (
        "import runpy, sys\n"
        "from pipeline.base import algebra\n"
        "algebra.compare = lambda a, b: bytearray(1 << 34) and 'same'\n"
        "sys.argv = ['worker', '1.0']\n"
        "from pipeline.base import algebra_worker\n"
        "algebra_worker.compare = algebra.compare\n"
        "algebra_worker.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(["x", "y"]) + "\n",
        capture_output=True, text=True, check=True, cwd=algebra_judge._ROOT,
        env={**os.environ, "PYTHONPATH": str(algebra_judge._ROOT)},
    )  # fmt: skip
    assert done.stdout.split() == ["ready", "too-large"]


def test_old_judgements_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algebra_judge, "REMEMBERED", 2)
    with AlgebraJudge(seconds=60) as judge:
        assert [judge.judge("x", letter) for letter in "abcx"] == [*["different"] * 3, "same"]
        assert list(judge._known) == [("x", "c"), ("x", "x")]
