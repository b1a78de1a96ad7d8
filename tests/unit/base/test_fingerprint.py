"""Equal bytes give an equal fingerprint; any other byte gives another one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from pipeline.base import fingerprint as module
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import (
    HashCache,
    fingerprint,
    model_shape,
    read_config,
    tensor_shapes,
    weight_files,
)
from tests.support.tiny import write_tiny_base


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp("made") / "base")


@pytest.fixture
def base(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "base"))


@pytest.fixture
def cache(tmp_path: Path) -> HashCache:
    return HashCache(tmp_path / "runs/hashes.json")


def test_a_copy_has_the_same_fingerprint(made: Path, base: Path, cache: HashCache) -> None:
    first, second = fingerprint(made, cache), fingerprint(base, cache)
    assert first == second
    names = [file["name"] for file in first["files"]]
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= set(names)
    assert len(first["fingerprint"]) == 64


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_one_byte_makes_another_base(base: Path, cache: HashCache, name: str) -> None:
    before = fingerprint(base, cache)["fingerprint"]
    raw = (base / name).read_bytes()
    changed = raw[:-1] + bytes([raw[-1] ^ 1]) if name.endswith(".safetensors") else raw + b" "
    (base / name).write_bytes(changed)
    assert fingerprint(base, HashCache(cache.path))["fingerprint"] != before


def test_what_does_not_decide_how_it_behaves_does_not_count(base: Path, cache: HashCache) -> None:
    before = fingerprint(base, cache)
    (base / "README.md").write_text("words")
    os.utime(base / "model.safetensors")
    assert fingerprint(base, cache) == before


def test_large_files_are_hashed_once(
    base: Path, cache: HashCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint(base, cache)
    hashed: list[str] = []
    monkeypatch.setattr(module, "sha256_file", lambda path: hashed.append(path.name) or "0")
    assert fingerprint(base, HashCache(cache.path)) == before
    assert hashed == []
    os.utime(base / "model.safetensors", ns=(1, 1))
    fingerprint(base, HashCache(cache.path))
    assert hashed == ["model.safetensors"]


def test_a_torn_cache_costs_only_the_hashing(base: Path, cache: HashCache) -> None:
    before = fingerprint(base, cache)
    cache.path.write_text('{"')
    assert fingerprint(base, HashCache(cache.path)) == before


def test_sizes_are_those_of_the_model(base: Path) -> None:
    shape = model_shape(base)
    assert (shape.layers, shape.hidden, shape.heads, shape.kv_heads) == (2, 64, 4, 2)
    assert shape.head_dim == 16
    shapes = tensor_shapes(base)
    assert shapes["model.embed_tokens.weight"] == (shape.vocabulary, 64)
    assert shape.weight_bytes == (base / "model.safetensors").stat().st_size
    assert 0 < shape.weight_bytes - 4 * shape.parameters < 20_000  # float32, and the header


def test_what_is_missing_is_named(base: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        read_config(tmp_path / "nowhere")
    (base / "model.safetensors").rename(base / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"pytorch_model\.bin"):
        weight_files(base)
    (base / "config.json").unlink()
    with pytest.raises(UserError, match=r"config\.json: file not found"):
        fingerprint(base, HashCache(tmp_path / "h.json"))


def test_a_cut_weight_file_is_named(base: Path) -> None:
    path = base / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"model\.safetensors: damaged"):
        model_shape(base)


def test_a_config_of_another_kind_of_model_is_named(base: Path) -> None:
    config = json.loads((base / "config.json").read_text())
    del config["num_attention_heads"]
    (base / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="num_attention_heads"):
        model_shape(base)
