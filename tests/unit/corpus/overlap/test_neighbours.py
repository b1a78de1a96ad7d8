"""The search: against brute force, and the same for any shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache
from pipeline.base.records import Problem, problem_id, write_rows
from pipeline.corpus.execution.executor import inline_watch
from pipeline.corpus.overlap import neighbours
from pipeline.corpus.overlap.embedding import Encoder
from pipeline.corpus.overlap.neighbours import (
    PAIR,
    Embedding,
    Found,
    Search,
    embed_span,
    in_order,
    nearest,
)
from pipeline.corpus.overlap.protected import ProtectedSet, make_set
from pipeline.corpus.overlap.sentence_model import SentenceModel, describe_model
from pipeline.corpus.overlap.token_store import Batches, spans_of, write_plan, write_store
from tests.support.sentences import WORDS, run_inline, write_tiny_sentence_model
from tests.support.settings import make_params
from tests.support.traces import make_trace


def sentence(seed: int) -> str:
    stream = np.random.default_rng(seed)
    return " ".join(stream.choice(WORDS, size=3 + seed % 9))


TRAINING = [sentence(seed) for seed in range(60)]
SETS = {
    "b.jsonl": [sentence(seed) for seed in range(100, 120)],
    "a.jsonl": [sentence(100), TRAINING[7] + " ?", sentence(300)],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SentenceModel:
    home = tmp_path_factory.mktemp("model")
    return describe_model(write_tiny_sentence_model(home / "m"), "m", HashCache(home / "h.json"))


def sets_of(texts: dict[str, list[str]]) -> list[ProtectedSet]:
    return [
        make_set(name, [Problem(problem_id(one), one, "1", name, name) for one in problems])
        for name, problems in texts.items()
    ]


def search(
    model: SentenceModel, home: Path, monkeypatch: pytest.MonkeyPatch, **given: Any
) -> Found:
    monkeypatch.setattr(neighbours, "run_shards", run_inline)
    home.mkdir(exist_ok=True)
    kept = home / "kept.jsonl"
    write_rows(kept, (make_trace(problem) for problem in [*TRAINING, *TRAINING[:5]]))
    params = make_params(**{"semantic.min_cosine": 0.3, "semantic.neighbours": 2, **given})
    one = Search(model, params.semantic, params.executor, "cpu", 0, home / "scratch")
    return one.run(kept, sets_of(SETS))


def vectors_of(model: SentenceModel, texts: list[str], home: Path) -> dict[str, Any]:
    """Id → vector, each text embedded alone."""
    encoder = Encoder(model, "cpu")
    write_store(home, [(problem_id(text), text) for text in texts], model)
    write_plan(home, [home], 1)
    found = {}
    for span in spans_of(home, 1, 1000):
        [row], ids = Batches(span, [str(home)]).read(0)
        found[f"{int(row['id']):016x}"] = encoder.embed(ids)[0].numpy()
    return found


def test_pairs_are_those_of_brute_force(
    model: SentenceModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = search(model, tmp_path / "search", monkeypatch)
    training = vectors_of(model, TRAINING, tmp_path / "training")
    expected = []
    for name, texts in SETS.items():
        protected = vectors_of(model, texts, tmp_path / name)
        for key, vector in training.items():
            near = [(float(vector @ other), one) for one, other in protected.items()]
            near = sorted(near, key=lambda pair: (-pair[0], pair[1]))[:2]
            expected += [(key, name, one, cosine) for cosine, one in near if cosine >= 0.3]
    rows = list(found.rows())
    cosines = {(key, name, one): cosine for key, name, one, cosine in expected}
    assert {(row["id"], row["set"], row["protected"]) for row in rows} == cosines.keys()
    for row in rows:
        cosine = cosines[row["id"], row["set"], row["protected"]]
        assert row["cosine"] == pytest.approx(cosine, abs=6e-5)
        assert row["cosine"] == round(row["cosine"], 4)
    order = [(row["id"], -row["cosine"], row["set"], row["protected"]) for row in rows]
    assert order == sorted(order)
    assert len(rows) > 40


def test_figures_count_every_problem_in_every_set(
    model: SentenceModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = search(model, tmp_path, monkeypatch)
    figures = found.figures
    assert (figures["problems"], figures["truncated"], figures["bin_width"]) == (60, 0, 0.05)
    assert [one["name"] for one in figures["sets"]] == ["a.jsonl", "b.jsonl"]
    assert [one["problems"] for one in figures["sets"]] == [3, 20]
    for one in figures["sets"]:
        assert len(one["nearest"]) == 20
        assert sum(one["nearest"]) == 60
        recorded = {row["id"] for row in found.rows() if row["set"] == one["name"]}
        assert sum(one["nearest"][6:]) == len(recorded)


def test_a_problem_of_two_sets_is_found_in_both(
    model: SentenceModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = search(model, tmp_path, monkeypatch, **{"semantic.min_cosine": 0.01})
    shared = problem_id(sentence(100))
    named: dict[str, set[str]] = {}
    for row in found.rows():
        if row["protected"] == shared:
            named.setdefault(row["set"], set()).add(row["id"])
    assert named["a.jsonl"] & named["b.jsonl"]


def test_shards_and_spans_change_nothing(
    model: SentenceModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = search(model, tmp_path / "whole", monkeypatch)
    monkeypatch.setattr(neighbours, "SPAN_TOKENS", {"cpu": 1})
    monkeypatch.setattr(neighbours, "BATCH_TOKENS", {"cpu": 50})
    small = search(model, tmp_path / "small", monkeypatch, **{"executor.shard_mib": 0.001})
    monkeypatch.setattr(neighbours, "SPAN_TOKENS", {"cpu": 300})
    middle = search(model, tmp_path / "middle", monkeypatch, **{"executor.shard_mib": 0.003})
    assert len(list((tmp_path / "small/scratch/compare").iterdir())) > 5
    assert len(list((tmp_path / "small/scratch/tokenise").iterdir())) > 5
    assert small.pairs.tobytes() == middle.pairs.tobytes()
    assert small.figures == middle.figures == whole.figures


def test_no_protected_problem_means_no_pair(
    model: SentenceModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETS, "b.jsonl", [])
    monkeypatch.setitem(SETS, "a.jsonl", [])
    found = search(model, tmp_path, monkeypatch)
    assert list(found.rows()) == []
    assert found.figures["problems"] == 60
    assert [sum(one["nearest"]) for one in found.figures["sets"]] == [0, 0]


def pairs_of(*rows: tuple[int, int, int]) -> Any:
    return np.array([(one, protected, cosine, 0) for one, protected, cosine in rows], dtype=PAIR)


def test_nearest_keeps_the_best_and_breaks_ties_by_id() -> None:
    pairs = pairs_of((2, 9, 7000), (1, 5, 6000), (1, 4, 6000), (1, 3, 5999), (1, 6, 8000))
    kept = nearest(pairs, 0.6, 2)[["id", "protected", "cosine"]].tolist()
    assert kept == [(1, 6, 8000), (1, 4, 6000), (2, 9, 7000)]
    assert nearest(pairs[:0], 0.6, 2).tolist() == []


def test_rounding_decides_at_the_limit() -> None:
    values = np.array([0.59996, 0.59994, 1.0000001, -0.2], dtype=np.float32)
    assert neighbours._rounded(values).tolist() == [6000, 5999, 10000, -2000]
    assert np.flatnonzero(neighbours._binned(values)).tolist() == [0, 11, 12, 19]


def test_the_final_order() -> None:
    rows = [(1, 5, 7000, 1), (1, 4, 7000, 1), (1, 9, 7000, 0), (1, 1, 9000, 2), (0, 1, 6000, 0)]
    ordered = in_order(np.array(rows, dtype=PAIR))
    assert ordered.tolist() == [rows[4], rows[3], rows[2], rows[1], rows[0]]


def test_a_batch_that_cannot_be_embedded_stops_the_run(
    model: SentenceModel, tmp_path: Path
) -> None:
    write_store(tmp_path, [("00", "red"), ("01", "blue")], model)
    write_plan(tmp_path, [tmp_path], 1)
    job = Embedding(model, "cpu", (str(tmp_path),))
    [_, second] = spans_of(tmp_path, 1, 9)
    watch = inline_watch()
    watch.poison[0] = "memory"
    with pytest.raises(UserError, match=r"batch 1 cannot be embedded \(memory\)"):
        embed_span(job, second, tmp_path, watch)


def test_one_worker_a_card_on_this_machine(model: SentenceModel) -> None:
    params = make_params(**{"executor.backend": "ray", "executor.workers": 7})
    given = (model, params.semantic, params.executor)
    on_cards = Search(*given, "cuda", 2, Path("s"))._embedding
    assert (on_cards.backend, on_cards.workers) == ("processes", 2)
    spread = Search(*given, "cpu", 0, Path("s"))._embedding
    assert (spread.backend, spread.workers) == ("ray", 7)
    assert spread.row_seconds >= 600 > params.executor.row_seconds
