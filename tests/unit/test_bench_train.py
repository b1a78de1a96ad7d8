"""bench.train: ways run in processes of their own, what is done is kept, tables hide nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import train, train_tables
from bench.train_base import make_all
from bench.train_peers import check, load
from bench.train_sizes import QWEN3_14B, TINY, claim, models_of
from bench.train_tables import LEAK, Way, derived, loss_table, speed_table, verdict, work_a_token
from bench.train_tasks import (
    Asked,
    Recipe,
    lengths_of,
    read_result,
    speed_figures,
    write_packed,
    write_result,
)
from pipeline.base.errors import UserError
from pipeline.learning.data import PackedData

ASKED = ["--tiny", "--shapes", "2x32", "--steps", "3", "--rank", "4", "--ways"]
TINY_MODELS = models_of(tiny=True, layers=None, check_layers=4, rank=4)


@pytest.fixture
def odd_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """A way that is not installed, and one that fails at once."""
    absent = Way("bench.train_peers", ("no_such_package",), "unsloth")
    broken = Way("bench.no_such_module", (), "unsloth")
    monkeypatch.setitem(train_tables.WAYS, "absent", absent)
    monkeypatch.setitem(train_tables.WAYS, "broken", broken)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.slow
@pytest.mark.usefixtures("odd_ways")
def test_all_ways_are_in_the_tables_and_a_repeated_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(tmp_path / "out"), *ASKED, "absent", "broken", "plain", "ours-bf16"]
    train.main(words)
    table = (tmp_path / "out/table.md").read_text()
    assert table in capsys.readouterr().out
    assert table.count("| not installed: no_such_package |") == 2
    assert table.count("No module named bench.no_such_module (exit 1) |") == 2
    both = json.loads((tmp_path / "out/table.json").read_text())
    assert {row["way"] for row in both["speed"]} == {"plain", "ours-bf16"}
    for row in both["speed"]:
        assert row["tokens_per_second"] > 0
        assert row["timed_steps"] == 1
    losses = {r["way"]: r["losses"] for r in both["results"] if "leak" in r}
    assert losses["ours-bf16"] == pytest.approx(losses["plain"], abs=1e-4)
    assert losses["plain"][-1] < losses["plain"][0] - 0.01
    assert table.count("| yes |") == 4
    assert "ours-bf16, 2x32: planned" in table

    calls: list[list[str]] = []

    def note(arguments: list[str], out: Path, log: Path, seconds: float) -> int:
        calls.append(arguments)
        return 1 if "broken" in arguments else 0

    monkeypatch.setattr(train, "run_child", note)
    train.main(words)
    assert {call[2] for call in calls[1:]} == {"broken"}
    assert (tmp_path / "out/table.md").read_text() == table


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny base with its text and first adapter."""
    out = tmp_path_factory.mktemp("made")
    claim(out, TINY_MODELS)
    make_all(out, Path(__file__).with_name("test_bench_train.py"), "cpu")
    return out


def test_the_check_sees_a_peer_that_leaks_between_documents(made: Path) -> None:
    import torch

    asked = Asked(made, "plain", ["check"], 3, Recipe(rank=4, alpha=4))
    peer = load("plain", made / "check-base", asked.recipe, 128, "cpu")
    assert check(asked, peer)["leak"] <= LEAK
    # An all-ones mask makes transformers forget that the positions start anew.
    peer.extra = lambda lengths: {"attention_mask": torch.ones(1, sum(lengths)), "use_cache": False}
    assert check(asked, peer)["leak"] > LEAK


def test_another_first_adapter_is_refused(made: Path) -> None:
    asked = Asked(made, "plain", ["check"], 3, Recipe(rank=4, alpha=4))
    peer = load("plain", made / "check-base", asked.recipe, 128, "cpu")
    peer.parameters.pop(sorted(peer.parameters)[0])
    with pytest.raises(ValueError, match="1 tensors are not of both sides"):
        check(asked, peer)


def test_work_a_token_of_the_14b_model_is_what_its_shapes_say() -> None:
    work = work_a_token(QWEN3_14B, [16_384], 64)
    rounded = {name: round(flops / 1e9, 1) for name, flops in work.items()}
    assert rounded == {"linears": 52.8, "attention": 23.5, "head": 3.1, "adapter": 1.5}
    packed = work_a_token(QWEN3_14B, [2048] * 8, 64)
    assert packed["attention"] == pytest.approx(work["attention"] / 8)


def test_figures_leave_out_the_warm_ups() -> None:
    models = models_of(tiny=False, layers=None, check_layers=4, rank=64)
    result = {"task": "16384x1", **speed_figures([30, 9, 2, 4, 3], [1.0] * 5, 40, 16_384)}
    found = derived(result, models, ceiling=800.0)
    assert found["tokens_per_second"] == pytest.approx(16_384 / 3)
    assert found["compile_seconds"] == pytest.approx(27)
    assert found["ceiling_share"] == pytest.approx(0.5525, abs=1e-3)


def test_the_ratio_is_to_unsloth_in_the_same_storage() -> None:
    shared = {"peak_gib": 1.0, "tflops": 1.0, "ceiling_share": 0.1, "compile_seconds": 1.0}
    rates = {"unsloth": 100.0, "unsloth-nf4": 50.0, "ours-fp8": 180.0, "ours-nf4": 60.0}
    figures = {
        (way, "8192x1"): {"tokens_per_second": rate, **shared} for way, rate in rates.items()
    }
    rows = speed_table(["8192x1"], list(rates), {}, figures)[2:]
    assert [row.split("|")[4].strip() for row in rows] == ["1.00", "1.00", "1.80", "1.20"]
    missing = speed_table(["8192x1"], ["plain"], {("plain", "8192x1"): {"error": "a | b"}}, {})
    assert "| plain | a / b |" in missing[-1]


def test_losses_are_judged_against_the_first_exact_way() -> None:
    plain, close, far = [13.0, 12.0, 11.0, 10.0], [13.004, 12, 11, 10.1], [13.03, 12, 11, 10.0]
    assert verdict("ours-bf16", close, plain).endswith("(equal)")
    assert verdict("ours-bf16", far, plain).endswith("(NOT equal)")
    assert verdict("ours-bf16", [13.0, 12, 11, 10.2], plain).endswith("(NOT equal)")
    assert "not compared" in verdict("ours-fp8", far, plain)
    checks = {
        ("ours-nf4", "check"): {"losses": far, "leak": 0.0},
        ("liger", "check"): {"losses": plain, "leak": 0.5},
    }
    lines = loss_table(["ours-nf4", "liger", "plain"], checks)
    assert "less those of liger" in lines[0]
    assert "no: they leak (0.5000 nats)" in lines[3]
    assert "not run" in lines[4]


def test_only_what_is_missing_is_run_and_a_crash_costs_one_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_result(tmp_path, "plain", "check", {"losses": [1.0], "leak": 0.0})
    calls: list[list[str]] = []

    def crash_once(arguments: list[str], out: Path, log: Path, seconds: float) -> int:
        tasks = arguments[3:-4]
        calls.append(tasks)
        log.parent.mkdir(exist_ok=True)
        log.write_text("torch.OutOfMemoryError: too much\n")
        if "16x1" in tasks:
            return 1
        for task in tasks:
            write_result(out, "plain", task, speed_figures([1.0] * 3, [1.0] * 3, 1.0, 16))
        return 0

    monkeypatch.setattr(train, "run_child", crash_once)
    tasks = ["check", "16x1", "8x2", "4x4"]
    train.run_way(tmp_path, "plain", tasks, 3, 4, limit=60.0)
    assert calls == [["16x1", "8x2", "4x4"], ["8x2", "4x4"]]
    failed = read_result(tmp_path, "plain", "16x1")
    assert failed is not None
    assert failed["error"] == "torch.OutOfMemoryError: too much (exit 1)"
    train.forget_failures(tmp_path, ["plain"], tasks)
    train.run_way(tmp_path, "plain", tasks, 3, 4, limit=60.0)
    assert calls[2:] == [["16x1"]]


def test_a_way_that_outlasts_its_time_is_ended_and_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def remember(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        started.append(start(*given, **named))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", remember)
    endless = ["timeit", "-n1", "-r1", "import time; time.sleep(600)"]
    assert train.run_child(endless, tmp_path, tmp_path / "logs/a.log", 0.2) is None
    assert started[0].returncode in (-15, -9)
    (tmp_path / "machine.json").write_text("{}")
    train.run_way(tmp_path, "plain", ["check", "8x2"], 3, 4, limit=0.0)
    for task in ("check", "8x2"):
        result = read_result(tmp_path, "plain", task)
        assert result is not None
        assert "--time-limit-s 0 was used up" in result["error"]


def test_the_last_errors_of_a_log_say_why_it_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("start\ntorch.OutOfMemoryError: CUDA out of memory\n  at x\nleft over\n")
    assert train.error_line(log) == "torch.OutOfMemoryError: CUDA out of memory"
    log.write_text("start\nKilled\n\n")
    assert train.error_line(log) == "Killed"


@pytest.mark.parametrize("shape", ["16384", "0x4", "axb", "1x2x3"])
def test_a_shape_that_is_none_is_refused(shape: str) -> None:
    assert lengths_of("8x2048") == lengths_of("2048x8") == [2048] * 8
    with pytest.raises(UserError, match="no shape"):
        lengths_of(shape)


def test_a_folder_made_for_another_model_starts_afresh(tmp_path: Path) -> None:
    claim(tmp_path, TINY_MODELS)
    write_result(tmp_path, "plain", "check", {"losses": []})
    claim(tmp_path, TINY_MODELS)
    assert read_result(tmp_path, "plain", "check") is not None
    claim(tmp_path, models_of(tiny=True, layers=3, check_layers=4, rank=4))
    assert read_result(tmp_path, "plain", "check") is None
    assert TINY.layers == 2


def test_packed_documents_carry_loss_on_all_but_their_first_token(tmp_path: Path) -> None:
    ids = np.arange(5)
    data = PackedData(write_packed(tmp_path, [[(ids, True), (ids, False), (ids, True)]]))
    batch = data.batch(np.array([0]))
    assert batch.targets.tolist() == [1, 2, 3, 4, 11, 12, 13, 14]
    assert data.trained_tokens(np.array([0])) == 8
