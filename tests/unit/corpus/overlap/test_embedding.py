"""Embeddings: pooling against a plain reference, independence of padding, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache
from pipeline.corpus.overlap.embedding import Encoder, choose_device, cosines
from pipeline.corpus.overlap.sentence_model import describe_model
from tests.support.sentences import write_tiny_sentence_model

TEXTS = [np.array(ids, dtype=np.uint32) for ids in ([2, 5, 3], [2, 6, 7, 8, 9, 3], [2, 3])]


def encoder(tmp_path: Path, **given: Any) -> Encoder:
    folder = write_tiny_sentence_model(tmp_path / "tiny", **given)
    return Encoder(describe_model(folder, "tiny", HashCache(tmp_path / "hashes.json")), "cpu")


def reference(folder: Path, ids: Any, pooling: str) -> torch.Tensor:
    """One text alone, no padding, no mask."""
    model = transformers.AutoModel.from_pretrained(str(folder)).eval()
    with torch.inference_mode():
        states = model(input_ids=torch.tensor(ids.astype(np.int64))[None]).last_hidden_state[0]
    pooled = states[0] if pooling == "cls" else states.mean(0)
    return pooled / pooled.norm()


@pytest.mark.stack
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_those_of_each_text_alone(tmp_path: Path, pooling: str) -> None:
    vectors = encoder(tmp_path, pooling=pooling).embed(TEXTS)
    assert vectors.dtype == torch.float32
    assert vectors.shape == (3, 32)
    for ids, vector in zip(TEXTS, vectors):
        expected = reference(tmp_path / "tiny", ids, pooling)
        torch.testing.assert_close(vector, expected, atol=1e-5, rtol=0)


def test_a_batch_gives_the_same_bits_again(tmp_path: Path) -> None:
    one = encoder(tmp_path)
    assert torch.equal(one.embed(TEXTS), one.embed(TEXTS))
    assert torch.get_num_threads() == 1


def test_cosines_of_unit_vectors() -> None:
    vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    others = torch.tensor([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
    expected = torch.tensor([[0.0, 1.0, -1.0], [0.8, 0.6, -0.6]])
    assert torch.equal(cosines(vectors, others), expected)


def test_absent_weights_are_not_made_up(tmp_path: Path) -> None:
    folder = write_tiny_sentence_model(tmp_path / "tiny")
    tensors = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith("pooler.")}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    cache = HashCache(tmp_path / "hashes.json")
    Encoder(describe_model(folder, "tiny", cache), "cpu")
    del kept["encoder.layer.1.output.dense.weight"]
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"lack 1 tensors \(encoder\.layer\.1\.output"):
        Encoder(describe_model(folder, "tiny", cache), "cpu")


def test_an_unknown_architecture_is_the_users_to_change(tmp_path: Path) -> None:
    folder = write_tiny_sentence_model(tmp_path / "tiny")
    model = describe_model(folder, "tiny", HashCache(tmp_path / "hashes.json"))
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"bert"', '"tomorrow"'))
    with pytest.raises(UserError, match="cannot load it"):
        Encoder(model, "cpu")


def test_the_device_follows_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (choose_device("auto"), choose_device("cpu")) == ("cpu", "cpu")
    with pytest.raises(UserError, match="torch sees no card"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [choose_device(one) for one in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]
