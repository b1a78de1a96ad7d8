"""Stage semantic with a tiny model: what it writes, what it refuses, restart and workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import semantic
from pipeline.base.artifacts import read_json, read_jsonl, sha256_file, write_json
from pipeline.base.errors import UserError
from pipeline.base.records import Problem, problem_id, write_rows
from pipeline.corpus.execution.executor import run_shards
from pipeline.corpus.overlap import neighbours
from tests.support.sentences import WORDS, run_inline, write_tiny_sentence_model
from tests.support.settings import make_params
from tests.support.traces import make_trace

OUT = Path("work/semantic")
STORY = "how many apples and pears holds each red box at the town"
TOLD = "the town holds red apples and pears: how many at each box"


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tiny_sentence_model(Path("tiny"))
    rows = [TOLD, *(f"what is the {word} sum {n}" for n, word in enumerate(WORDS[:18])), TOLD]
    write_rows(
        Path("work/filter/kept.jsonl"),
        (make_trace(text, origin=f"t:{n}") for n, text in enumerate(rows)),
    )
    panel = [Problem(problem_id(STORY), STORY, "1", "p.jsonl", "p.jsonl:1")]
    write_rows(Path("work/filter/panel.jsonl"), panel)
    Path("set.jsonl").write_text(json.dumps({"problem": "find the area of the triangle"}) + "\n")
    entry = {"path": "set.jsonl", "bytes": 0, "sha256": sha256_file(Path("set.jsonl"))}
    write_json(Path("work/prepare/protected.json"), [entry])


@pytest.fixture
def _inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "run_shards", run_inline)


def settings(**given: Any) -> Any:
    """Params with the tiny model on the CPU."""
    return make_params(**{"semantic.model": "tiny", "semantic.device": "cpu", **given})


def test_without_a_model_the_list_is_empty() -> None:
    semantic.main(make_params(**{"semantic.model": None}))
    assert (OUT / "neighbours.jsonl").read_bytes() == b""
    assert read_json(OUT / "semantic.json") == {"model": None, "problems": 0, "pairs": 0}


@pytest.mark.usefixtures("_inline")
def test_a_problem_in_other_words_is_found() -> None:
    semantic.main(settings(**{"semantic.min_cosine": 0.9}))
    [row] = read_jsonl(OUT / "neighbours.jsonl")
    cosine = row.pop("cosine")
    assert row == {"id": problem_id(TOLD), "set": "panel", "protected": problem_id(STORY)}
    assert 0.9 <= cosine < 1
    report = read_json(OUT / "semantic.json")
    assert (report["model"], report["device"], report["dimensions"]) == ("tiny", "cpu", 32)
    assert (report["problems"], report["pairs"], report["min_cosine"]) == (19, 1, 0.9)
    assert {one["name"]: one["problems"] for one in report["sets"]} == {"panel": 1, "set.jsonl": 1}
    assert list(Path("runs/corpus").iterdir()) == []


def test_a_model_that_is_not_there_is_refused_first() -> None:
    Path("work/filter/kept.jsonl").unlink()
    with pytest.raises(UserError, match="nowhere is not a folder"):
        semantic.main(settings(**{"semantic.model": "nowhere"}))


@pytest.mark.usefixtures("_inline")
def test_a_changed_protected_file_is_refused() -> None:
    Path("set.jsonl").write_text("{}")
    with pytest.raises(UserError, match="changed since"):
        semantic.main(settings())


@pytest.mark.slow
def test_workers_and_a_restart_change_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "SPAN_TOKENS", {"cpu": 40})
    monkeypatch.setattr(neighbours, "BATCH_TOKENS", {"cpu": 20})
    outputs = set()
    for workers, shard_mib in ((1, 64), (2, 0.002)):
        semantic.main(settings(**{"executor.workers": workers, "executor.shard_mib": shard_mib}))
        outputs.add(tuple((OUT / n).read_bytes() for n in ("neighbours.jsonl", "semantic.json")))
    done: list[str] = []

    def stopped(name: str, *given: Any) -> list[Path]:
        if name == "compare" and "protect" in done:
            raise KeyboardInterrupt
        done.append(name)
        return run_shards(name, *given)

    monkeypatch.setattr(neighbours, "run_shards", stopped)
    with pytest.raises(KeyboardInterrupt):
        semantic.main(settings())
    [scratch] = Path("runs/corpus").iterdir()
    before = {path: path.stat().st_mtime_ns for path in scratch.glob("protect/*/vectors.npy")}
    assert before
    after: dict[Path, int] = {}

    def resumed(name: str, *given: Any) -> list[Path]:
        after.update((path, path.stat().st_mtime_ns) for path in before)
        return run_shards(name, *given)

    monkeypatch.setattr(neighbours, "run_shards", resumed)
    semantic.main(settings())
    outputs.add(tuple((OUT / n).read_bytes() for n in ("neighbours.jsonl", "semantic.json")))
    assert after == before
    assert len(outputs) == 1
    assert outputs.pop()[0]
