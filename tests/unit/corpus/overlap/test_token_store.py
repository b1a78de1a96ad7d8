"""Token stores and the canonical batches."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache
from pipeline.base.records import problem_id, write_rows
from pipeline.corpus.execution.executor import inline_watch
from pipeline.corpus.execution.shards import line_shards
from pipeline.corpus.overlap.sentence_model import SentenceModel, describe_model
from pipeline.corpus.overlap.token_store import (
    Batches,
    _cuts,
    as_id,
    as_number,
    spans_of,
    text_of,
    tokenise,
    write_plan,
    write_store,
)
from tests.support.sentences import write_tiny_sentence_model
from tests.support.traces import make_trace


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SentenceModel:
    home = tmp_path_factory.mktemp("model")
    return describe_model(write_tiny_sentence_model(home / "m"), "m", HashCache(home / "h.json"))


PROBLEMS = [" ".join(["apples"] * (1 + n % 5)) + f" {n}" for n in range(20)]


def stores(model: SentenceModel, home: Path, shard_bytes: int) -> list[Path]:
    kept = home / "kept.jsonl"
    write_rows(kept, (make_trace(problem) for problem in [*PROBLEMS, *PROBLEMS[:3]]))
    folders = []
    for shard in line_shards(kept, shard_bytes):
        folder = home / f"{shard_bytes}-{shard.number}"
        folder.mkdir()
        tokenise(model, shard, folder, inline_watch())
        folders.append(folder)
    return folders


def read_all(
    plan: Path, folders: list[Path], span_tokens: int
) -> list[list[tuple[str, list[int]]]]:
    batches = []
    for span in spans_of(plan, span_tokens, 1000):
        reader = Batches(span, [str(folder) for folder in folders])
        for number in range(len(reader)):
            rows, texts = reader.read(number)
            batches.append([(as_id(int(r["id"])), t.tolist()) for r, t in zip(rows, texts)])
    return batches


def test_batches_do_not_depend_on_shards(model: SentenceModel, tmp_path: Path) -> None:
    found = []
    for shard_bytes, span_tokens in ((1 << 20, 1 << 20), (700, 1), (1500, 30)):
        folders = stores(model, tmp_path, shard_bytes)
        plan = tmp_path / f"plan{shard_bytes}"
        assert write_plan(plan, folders, 24) == (20, 0)
        found.append(read_all(plan, folders, span_tokens))
    assert len(folders) > 1
    assert found[0] == found[1] == found[2]
    flat = [entry for batch in found[0] for entry in batch]
    assert flat == sorted(flat, key=lambda entry: (len(entry[1]), entry[0]))
    assert {key for key, _ in flat} == {problem_id(problem) for problem in PROBLEMS}


def test_many_batches_make_longer_spans(model: SentenceModel, tmp_path: Path) -> None:
    folders = stores(model, tmp_path, 1 << 20)
    write_plan(tmp_path / "plan", folders, 8)
    spans = spans_of(tmp_path / "plan", 1, 1000)
    assert [span.stop for span in spans] == list(range(1, len(spans) + 1))
    few = spans_of(tmp_path / "plan", 1, 4)
    assert 3 <= len(few) <= 4
    assert (few[0].first_row, few[-1].stop) == (0, len(spans))
    assert sum(span.tokens for span in few) == sum(span.tokens for span in spans)


def test_the_first_text_of_a_problem_is_taken(model: SentenceModel, tmp_path: Path) -> None:
    for name, text in (("a", "red"), ("b", "green")):
        write_store(tmp_path / name, [("00000000000000ff", text)], model)
    for order, word in ((("a", "b"), "red"), (("b", "a"), "green")):
        folders = [tmp_path / name for name in order]
        write_plan(tmp_path / "plan", folders, 8)
        [[(key, ids)]] = read_all(tmp_path / "plan", folders, 8)
        write_store(tmp_path / "c", [(key, word)], model)
        assert ids == np.fromfile(tmp_path / "c/tokens.bin", dtype="<u4").tolist()


def test_a_store_holds_a_problem_once(model: SentenceModel, tmp_path: Path) -> None:
    write_store(tmp_path, [("0a", "red"), ("0b", "blue"), ("0a", "red red")], model)
    rows = np.load(tmp_path / "rows.npy")
    assert rows[["id", "start", "length"]].tolist() == [(10, 0, 3), (11, 3, 3)]


def test_long_texts_are_cut_and_counted(model: SentenceModel, tmp_path: Path) -> None:
    texts = ["apples " * 14, "apples " * 15, "a" * 100_000, " " * 600 + "apples"]
    write_store(tmp_path / "s", [(as_id(n), text) for n, text in enumerate(texts)], model)
    rows = np.load(tmp_path / "s/rows.npy")
    assert rows["length"].tolist() == [16, 16, 3, 3]
    assert rows["truncated"].tolist() == [0, 1, 1, 0]
    assert write_plan(tmp_path / "s", [tmp_path / "s"], 64) == (4, 2)


def test_lower_case_is_the_models_wish(tmp_path: Path) -> None:
    folder = write_tiny_sentence_model(tmp_path / "m")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "normalizer": None}))
    model = describe_model(folder, "m", HashCache(tmp_path / "h.json"))
    found = []
    for number, wish in enumerate([replace(model, lower_case=True), model]):
        home = tmp_path / str(number)
        write_store(home, [("00", "RED red")], wish)
        found.append(np.fromfile(home / "tokens.bin", dtype="<u4").tolist())
    lowered, plain = found
    assert lowered[1] == lowered[2] == plain[2]
    assert plain[1] == tokenizer["model"]["vocab"]["[UNK]"]


def test_drawings_are_not_embedded() -> None:
    assert text_of("A [asy] draw(A--B); [/asy] circle") == "A   circle"
    assert text_of("[asy] draw(A--B);") == "[asy] draw(A--B);"


def test_a_row_that_cannot_be_worked_on_stops_the_run(model: SentenceModel, tmp_path: Path) -> None:
    write_rows(tmp_path / "kept.jsonl", (make_trace(problem) for problem in PROBLEMS))
    [shard] = line_shards(tmp_path / "kept.jsonl", 1 << 20)
    watch = inline_watch()
    watch.poison[3] = "timeout"
    with pytest.raises(UserError, match=r"kept\.jsonl:4: the problem cannot be tokenised \(timeo"):
        tokenise(model, shard, tmp_path, watch)


@given(st.text("0123456789abcdef", min_size=16, max_size=16))
def test_ids_are_numbers(problem: str) -> None:
    assert as_id(as_number(problem)) == problem


@settings(deadline=None)
@given(st.lists(st.integers(1, 60), max_size=80), st.integers(1, 200))
def test_every_batch_is_as_full_as_it_may_be(lengths: list[int], limit: int) -> None:
    lengths.sort()
    cuts = _cuts(np.array(lengths, dtype=np.uint32), limit).tolist()
    assert cuts[0] == 0
    assert cuts[-1] == len(lengths)
    for start, stop in pairwise(cuts):
        assert stop - start == 1 or (stop - start) * lengths[stop - 1] <= limit
        assert stop == len(lengths) or (stop + 1 - start) * lengths[stop] > limit
