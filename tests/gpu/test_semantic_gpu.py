"""The semantic search on a CUDA device: its neighbours are those of the CPU.

make test MARKERS=gpu TESTS=tests/gpu
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.base.fingerprint import HashCache
from pipeline.base.records import Problem, problem_id, write_rows
from pipeline.corpus.overlap import neighbours
from pipeline.corpus.overlap.embedding import cards
from pipeline.corpus.overlap.neighbours import Search
from pipeline.corpus.overlap.protected import make_set
from pipeline.corpus.overlap.sentence_model import SentenceModel, describe_model, find_model
from tests.support.sentences import WORDS, write_tiny_sentence_model
from tests.support.settings import make_params
from tests.support.traces import make_trace

pytestmark = pytest.mark.gpu

TOLERANCE = 1e-3
"""Largest difference of a cosine between TF32 products on a card and float32 on a CPU."""
LIMIT = 0.3


def sentence(seed: int) -> str:
    stream = np.random.default_rng(seed)
    return " ".join(stream.choice(WORDS, size=3 + seed % 40))


def search(model: SentenceModel, home: Path, device: str, **given: Any) -> dict[Any, float]:
    """(problem, set, protected problem) → cosine, by the stage's own search."""
    home.mkdir()
    rows = [sentence(seed) for seed in range(400)]
    write_rows(home / "kept.jsonl", (make_trace(text) for text in rows))
    texts = [sentence(seed) for seed in range(1000, 1050)]
    problems = [Problem(problem_id(one), one, "1", "p", "p") for one in texts]
    # All pairs: a tie between two neighbours must not decide which are compared.
    wanted = {"semantic.min_cosine": LIMIT, "semantic.neighbours": 50, **given}
    params = make_params(**wanted)
    one = Search(model, params.semantic, params.executor, device, cards(), home / "scratch")
    found = one.run(home / "kept.jsonl", [make_set("p", problems)])
    return {(r["id"], r["set"], r["protected"]): r["cosine"] for r in found.rows()}


def assert_agree(reference: dict[Any, float], found: dict[Any, float]) -> None:
    shared = reference.keys() & found.keys()
    assert len(shared) > 100
    assert max(abs(reference[pair] - found[pair]) for pair in shared) <= TOLERANCE
    alone = {pair: reference.get(pair) or found[pair] for pair in reference.keys() ^ found.keys()}
    assert all(cosine <= LIMIT + TOLERANCE for cosine in alone.values())


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_card_finds_what_the_cpu_finds(tmp_path: Path, pooling: str) -> None:
    folder = write_tiny_sentence_model(
        tmp_path / "m", pooling=pooling, hidden=256, layers=6, max_tokens=48
    )
    model = describe_model(folder, "m", HashCache(tmp_path / "h.json"))
    reference = search(model, tmp_path / "cpu", "cpu")
    assert_agree(reference, search(model, tmp_path / "card", "cuda"))


@pytest.mark.real
def test_the_embedded_model_on_a_card(tmp_path: Path) -> None:
    model = find_model("embedded", HashCache(tmp_path / "h.json"))
    reference = search(model, tmp_path / "cpu", "cpu")
    assert_agree(reference, search(model, tmp_path / "card", "cuda"))


def test_spans_change_nothing_on_a_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_tiny_sentence_model(tmp_path / "m", hidden=256, layers=6, max_tokens=48)
    model = describe_model(folder, "m", HashCache(tmp_path / "h.json"))
    whole = search(model, tmp_path / "whole", "cuda")
    monkeypatch.setitem(neighbours.SPAN_TOKENS, "cuda", 1)
    assert search(model, tmp_path / "parts", "cuda", **{"executor.shard_mib": 0.02}) == whole
