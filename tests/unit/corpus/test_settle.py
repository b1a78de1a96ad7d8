"""Decisions become rows: tokens, order, poison batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.chat import Chat
from pipeline.base.prompt_variants import Prompts
from pipeline.base.records import Dropped, Trace, read_rows
from pipeline.corpus import settle
from pipeline.corpus.copies.decisions import HoldoutWish
from pipeline.corpus.execution.watch import Watch, new_slots
from pipeline.corpus.readers.cuts import plan_shards
from pipeline.corpus.settle import SettleJob, count_tokens, settle_shard
from pipeline.packing.encoding import encode_documents
from tests.support.closure import ROOT
from tests.support.filtering import fresh, row, run_filter, write_files
from tests.support.prompts import THINKING, chat_of, make_base, spaced_base
from tests.support.settings import make_params
from tests.support.tiny import CHATML, write_tiny_tokenizer
from tests.support.traces import make_trace

PARAMS = make_params(**{"filter.max_unreadable_share": 1.0})


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    write_tiny_tokenizer(folder)
    return folder


def test_tokens_are_those_of_prompt_reply_and_end(base: Path, tmp_path: Path) -> None:
    rows = [row("What is 2 + 2?", "4", "<think>Let me see</think>It is", answer="4")]
    trace = run_filter(base, tmp_path / "run", PARAMS, rows).kept[0]
    assert trace.thinking == "Let me see"
    chat = Chat(base, PARAMS.prompt)
    encoded = chat.encode(trace.problem, trace.thinking, trace.solution)
    assert trace.tokens == len(encoded.prompt) + len(encoded.reply)
    assert count_tokens(chat, [trace, trace]) == [trace.tokens] * 2


def trained_tokens(base: Path, traces: list[Trace], **prompt: Any) -> list[int]:
    """Tokens of each trace as it is packed."""
    params = make_params(**{f"prompt.{key}": value for key, value in prompt.items()})
    return [len(one.ids) for one in encode_documents(Prompts(base, params.prompt), traces, seed=0)]


def real_traces() -> list[Trace]:
    """The project's own pages, cut into problems, reasoning and replies at their blank lines."""
    pieces = [
        piece
        for page in sorted((ROOT / "docs").glob("*.md"))
        for piece in page.read_text().split("\n\n")
        if piece.strip()
    ]
    return [
        make_trace(one, thinking=two if number % 2 else "", solution=f"\n{three} \\boxed{{3}}")
        for number, (one, two, three) in enumerate(
            zip(pieces, pieces[1:], pieces[2:], strict=False)
        )
    ]


@pytest.mark.parametrize("thinking", ["template", "empty-prefill"])
@pytest.mark.parametrize(
    "make", [make_base, spaced_base, lambda folder, _: make_base(folder, THINKING)]
)
def test_counted_are_the_tokens_that_are_trained(
    tmp_path: Path, make: Callable[[Path, str], Path], thinking: str
) -> None:
    traces = real_traces()
    assert len(traces) > 300
    base = make(tmp_path, CHATML)
    counted = count_tokens(chat_of(base, thinking=thinking), traces)
    assert counted == trained_tokens(base, traces, thinking=thinking)


def test_so_it_is_with_the_embedded_tokenizer(embedded_base: Path) -> None:
    traces = real_traces()
    counted = count_tokens(chat_of(embedded_base), traces)
    assert counted == trained_tokens(embedded_base, traces)


def test_dropped_rows_of_both_steps_come_in_the_order_of_the_file(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = row("A?", 1, answer=1), row("A?", 2, answer=1)
    others = [row(f"{n}?", n, answer=n) for n in range(2, 7)]
    monkeypatch.setattr(settle, "BATCH_ROWS", 2)
    found = run_filter(base, tmp_path / "run", PARAMS, [good, good, bad, *others, good, b"{", bad])
    assert [origin for origin, _ in found.reasons()] == [
        f"f0.jsonl:{line}" for line in (2, 3, 9, 10, 11)
    ]
    assert [one.origin for one in found.kept] == [f"f0.jsonl:{n}" for n in (1, 4, 5, 6, 7, 8)]


@pytest.mark.parametrize("cut", [1, 200, 500])
def test_where_shards_are_cut_changes_nothing(base: Path, tmp_path: Path, cut: int) -> None:
    rows: list[Any] = [
        row(f"Problem {n % 17}?", n % 17, f"Try {n // 20} shows that it is", answer=n % 17, id=n)
        for n in range(34)
    ]
    rows[5], rows[9] = b"{", {"problem": "Problem 3?", "answer": "0"}
    rows[30]["id"] = 3
    wish = HoldoutWish(2, 0.3, 1)
    whole = run_filter(base, tmp_path / "whole", PARAMS, rows, rows[:7], wish=wish)
    parts = run_filter(base, tmp_path / "parts", PARAMS, rows, rows[:7], wish=wish, shard_bytes=cut)
    assert len(list((tmp_path / "parts/judged").iterdir())) > 3
    reasons = {"duplicate-row", "gold-conflict", "id-clash", "no-solution", "not-json"}
    assert {reason for _, reason in whole.reasons()} == reasons
    assert min(len(whole.kept), len(whole.panel), len(whole.reserve)) > 0
    for name in ("kept", "dropped", "panel", "reserve", "tally"):
        assert getattr(parts, name) == getattr(whole, name)
    assert parts.reduction is not None
    assert whole.reduction is not None
    assert parts.reduction.summary() == whole.reduction.summary()


def test_a_batch_that_ended_a_process_is_taken_apart(base: Path, tmp_path: Path) -> None:
    rows = [row(f"{n}?", n, answer=n) for n in range(4)]
    run_filter(base, tmp_path, PARAMS, rows)
    [shard] = plan_shards(write_files(tmp_path, [rows]), 2**20)
    job = SettleJob(str(base), PARAMS.prompt, (str(tmp_path / "judged/0"),), str(tmp_path / "d"))
    out = fresh(tmp_path / "again")
    settle_shard(job, shard, out, Watch(new_slots(), {4: "crash", 8 + 2: "crash"}))
    assert [one.problem for one in read_rows(Trace, out / "kept.jsonl")] == ["0?", "1?", "3?"]
    [gone] = read_rows(Dropped, out / "dropped.jsonl")
    assert (gone.origin, gone.reason) == ("f0.jsonl:3", "crash")
    whole = (tmp_path / "settled/0/kept.jsonl").read_bytes().splitlines(keepends=True)
    assert (out / "kept.jsonl").read_bytes() == b"".join(whole[:2] + whole[3:])
