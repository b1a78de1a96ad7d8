"""A shard's rows by themselves: what survives, what testifies, what is left on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.base.params_corpus import SourceParams
from pipeline.base.records import Dropped, Trace, problem_id, read_rows
from pipeline.corpus import judge
from pipeline.corpus.copies.shard_store import read_text
from pipeline.corpus.execution.watch import Watch, inline_watch, new_slots
from pipeline.corpus.funnel import SourceTally, read_tally
from pipeline.corpus.judge import JudgeJob, judge_shard, sign_earlier
from pipeline.corpus.readers.cuts import plan_shards
from tests.support.filtering import fresh, row, write_files
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_tokenizer

PARAMS = make_params()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    write_tiny_tokenizer(folder)
    return folder


def run(
    base: Path, folder: Path, rows: list[Any], watch: Watch | None = None, **source: Any
) -> tuple[Path, SourceTally]:
    [shard] = plan_shards(write_files(folder, [rows]), 2**20)
    about = SourceParams(path="f", **source)
    job = JudgeJob(str(base), PARAMS.prompt, PARAMS.filter, (SourceParams(path="-"), about), (1,))
    out = fresh(folder / "out")
    judge_shard(job, shard, out, watch or inline_watch())
    return out, read_tally(out / "tally.json")


def survivors(out: Path) -> list[Trace]:
    return list(read_rows(Trace, out / "survivors.jsonl"))


def dropped(out: Path) -> list[tuple[str, str]]:
    return [(one.origin, one.reason) for one in read_rows(Dropped, out / "dropped.jsonl")]


def test_survivors_and_dropped_rows_keep_their_order(base: Path, tmp_path: Path) -> None:
    rows = [row("A?", 1, answer=1), b"{", row("B?", 2, answer=3), row("C?", 4, answer=4)]
    out, tally = run(base, tmp_path, rows, tier="hard", weight=2.0)
    found = survivors(out)
    assert [(one.origin, one.tokens) for one in found] == [("f0.jsonl:1", 0), ("f0.jsonl:4", 0)]
    assert {(one.tier, one.weight, one.solve_rate) for one in found} == {("hard", 2.0, None)}
    assert dropped(out) == [("f0.jsonl:2", "not-json"), ("f0.jsonl:3", "wrong-answer")]
    assert np.load(out / "order.npy").tolist() == [1, 0, 0, 1]
    assert (tally.read, tally.rows, tally.unreadable) == (4, 4, 1)
    assert tally.first_unreadable.startswith("f0.jsonl:2: not-json")
    assert tally.examples["wrong-answer"].startswith("f0.jsonl:3: ")
    assert tally.schemas == {"problem/solution/answer": 3}


def test_entries_are_survivors_and_rows_that_state_an_answer(base: Path, tmp_path: Path) -> None:
    rows = [
        {"problem": "A?", "answer": "4"},
        row("A?", "5", answer="$4$"),
        row("A?", "4"),
        row("B?", "", answer="4"),
        {"problem": "C?", "answer": "{"},
    ]
    out, _ = run(base, tmp_path, rows)
    entries = np.load(out / "entries.npy")
    assert entries["place"].tolist() == [-1, -1, 0]
    assert entries["stated"].tolist() == [1, 1, 0]
    assert set(entries["problem"].tolist()) == {int(problem_id("A?"), 16)}
    assert len(set(entries["gold"].tolist())) == 1, "dollars change nothing"
    answers = [read_text(out, "golds", at) for at in entries["gold_at"].tolist()]
    assert answers == ["4\0f0.jsonl:1", "4\0f0.jsonl:1", "4\0f0.jsonl:3"]
    assert read_text(out, "problems", int(entries["problem_at"][0])) == "A?"


def test_several_generations_are_traces_with_a_place_of_their_own_and_one_vote(
    base: Path, tmp_path: Path
) -> None:
    texts = [f"Surely {said} the answer is \\boxed{{{n}}}." for said, n in (("x", 4), ("y", 5))]
    rows = [{"problem": "A?", "answer": "4", "generations": [*texts, texts[0] + " Yes."], "id": 7}]
    out, _ = run(base, tmp_path, rows)
    assert [one.origin for one in survivors(out)] == ["f0.jsonl:1[0]", "f0.jsonl:1[2]"]
    assert dropped(out) == [("f0.jsonl:1[1]", "wrong-answer")]
    entries = np.load(out / "entries.npy")
    assert entries["votes"].tolist() == [1, 0, 0]
    assert read_text(out, "origins", 1) == "f0.jsonl:1[2]\x007"


def test_replies_that_differ_in_figures_alone_have_one_template(base: Path, tmp_path: Path) -> None:
    texts = ["We have 3 of 12 and get", "We have 4 of 17 and get", "There are 4 of 17, so we get"]
    out, _ = run(base, tmp_path, [row(f"{n}?", n, text, answer=n) for n, text in enumerate(texts)])
    first, second, third = np.load(out / "entries.npy")["template"].tolist()
    assert first == second != third


def test_a_poison_row_costs_itself_alone(base: Path, tmp_path: Path) -> None:
    rows = [row("A?", 1, answer=1), row("B?", 2, answer=2), row("C?", 4, answer=4)]
    watch = Watch(new_slots(), {1: "timeout"})
    out, tally = run(base, tmp_path, rows, watch)
    assert [one.problem for one in survivors(out)] == ["A?", "C?"]
    assert dropped(out) == [("f0.jsonl:2", "timeout")]
    assert tally.read == 3


def test_a_row_without_memory_costs_itself_alone(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = judge.judge_candidate

    def short(candidate: Any, settings: Any) -> Any:
        if candidate.problem == "B?":
            raise MemoryError
        return right(candidate, settings)

    monkeypatch.setattr(judge, "judge_candidate", short)
    rows = [row("A?", 1, answer=1), row("B?", 2, answer=2), row("C?", 4, answer=4)]
    out, _ = run(base, tmp_path, rows)
    assert dropped(out) == [("f0.jsonl:2", "memory")]
    assert len(survivors(out)) == 2


def test_an_empty_shard_has_all_its_files(base: Path, tmp_path: Path) -> None:
    out, tally = run(base, tmp_path / "rows", [b""])
    assert (tally.read, len(np.load(out / "entries.npy"))) == (0, 0)
    sign_earlier(tmp_path / "earlier", [], 0.8)
    shapes = [np.load(path / "signatures.npy").shape for path in (out, tmp_path / "earlier")]
    assert shapes == [(32, 0), (32, 0)]
