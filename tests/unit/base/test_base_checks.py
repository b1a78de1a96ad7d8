"""A base whose parts do not fit together is refused before anything is computed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.base_checks import check_base
from pipeline.base.errors import UserError
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base

PROMPT = make_params().prompt


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp("whole") / "base", "qwen3")


@pytest.fixture
def base(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "base"))


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    tree = json.loads(path.read_text())
    change(tree)
    path.write_text(json.dumps(tree))


def refusal(base: Path) -> str:
    with pytest.raises(UserError) as caught:
        check_base(base, PROMPT)
    return str(caught.value)


def test_a_whole_base_passes_and_is_left_as_it_was(base: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in base.parent.rglob("*")}
    shape = check_base(base, PROMPT)
    assert (shape.model_type, shape.layers, shape.hidden) == ("qwen3", 2, 64)
    assert {path: path.stat().st_mtime_ns for path in base.parent.rglob("*")} == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("config.json", "config.json: file not found"),
        ("tokenizer.json", "tokenizer.json: file not found"),
        ("tokenizer_config.json", "tokenizer_config.json: file not found"),
        ("chat_template.jinja", "no chat template"),
        ("model.safetensors", "no *.safetensors weights"),
    ],
)
def test_a_missing_file_is_named(base: Path, name: str, said: str) -> None:
    (base / name).unlink()
    assert said in refusal(base)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "is not a folder" in refusal(tmp_path / "nowhere")


def test_pickled_weights_are_not_taken_instead(base: Path) -> None:
    (base / "model.safetensors").rename(base / "pytorch_model.bin")
    assert "found: ['pytorch_model.bin']" in refusal(base)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize(("text", "said"), [("{", "not valid JSON"), ("[1]", "holds a list")])
def test_a_broken_json_file_is_named(base: Path, name: str, text: str, said: str) -> None:
    (base / name).write_text(text)
    answer = refusal(base)
    assert name in answer
    assert said in answer


def test_a_tokenizer_without_vocabulary_is_refused(base: Path) -> None:
    (base / "tokenizer.json").write_text('{"model": null}')
    assert "holds no vocabulary" in refusal(base)


def test_cut_weights_are_damaged(base: Path) -> None:
    path = base / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    assert "model.safetensors: damaged" in refusal(base)


@pytest.mark.parametrize(
    "change",
    [
        {"architectures": ["T5ForConditionalGeneration"]},
        {"is_encoder_decoder": True},
        {"architectures": None},
    ],
)
def test_what_is_no_decoder_is_refused(base: Path, change: dict[str, Any]) -> None:
    edit(base / "config.json", lambda tree: tree.update(change))
    assert "is not a causal language model" in refusal(base)


def test_a_size_that_is_no_number_is_refused(base: Path) -> None:
    edit(base / "config.json", lambda tree: tree.update(num_hidden_layers="two"))
    assert "num_hidden_layers = 'two' is not a whole number" in refusal(base)
    edit(base / "config.json", lambda tree: tree.update(num_hidden_layers=2, hidden_size="64"))
    assert "hidden_size = '64' is not a whole number" in refusal(base)


@pytest.mark.parametrize("key", ["vocab_size", "hidden_size"])
def test_embedding_and_config_must_agree(base: Path, key: str) -> None:
    edit(base / "config.json", lambda tree: tree.update({key: 32}))
    assert "embed_tokens.weight is [" in refusal(base)


def test_a_token_without_embedding_row_disagrees(base: Path) -> None:
    rows = json.loads((base / "config.json").read_text())["vocab_size"]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    entry = {"id": rows, "content": "<extra>", "special": True, **flags}
    edit(base / "tokenizer.json", lambda tree: tree["added_tokens"].append(entry))
    assert f"tokenizer disagrees with the base: its largest id is {rows}" in refusal(base)


def test_an_end_token_that_no_file_knows_is_refused(base: Path) -> None:
    edit(base / "tokenizer_config.json", lambda tree: tree.update(eos_token="<|other|>"))
    assert "eos_token '<|other|>' is not in tokenizer.json" in refusal(base)


def test_an_id_that_differs_between_the_files_is_refused(base: Path) -> None:
    decoder = {"1": {"content": "<|im_end|>"}}
    edit(base / "tokenizer_config.json", lambda tree: tree.update(added_tokens_decoder=decoder))
    assert "'<|im_end|>' has id 1, in tokenizer.json 2" in refusal(base)


def test_a_template_with_a_syntax_fault_names_its_line(base: Path) -> None:
    (base / "chat_template.jinja").write_text("{{ bos_token }}\n{% for message in %}")
    assert "chat template, line 2" in refusal(base)


def test_a_template_that_ignores_the_user_is_refused(base: Path) -> None:
    (base / "chat_template.jinja").write_text("{{ messages[-1]['role'] }}<|im_end|>")
    assert "leaves out the user's message" in refusal(base)


def shard(base: Path, weight_map: Callable[[str], dict[str, str]]) -> None:
    (base / "model.safetensors").rename(base / "model-00001-of-00001.safetensors")
    index = {"weight_map": weight_map("model-00001-of-00001.safetensors")}
    (base / "model.safetensors.index.json").write_text(json.dumps(index))


def test_a_whole_index_of_shards_passes(base: Path) -> None:
    shard(base, lambda file: {"model.norm.weight": file})
    assert check_base(base, PROMPT).layers == 2


def test_a_missing_shard_is_named(base: Path) -> None:
    shard(base, lambda file: {"model.norm.weight": "model-00002-of-00002.safetensors"})
    assert "model-00002-of-00002.safetensors: file not found" in refusal(base)


def test_a_tensor_that_no_shard_holds_is_named(base: Path) -> None:
    shard(base, lambda file: {"model.layers.9.mlp.up_proj.weight": file})
    assert "tensor model.layers.9.mlp.up_proj.weight is in none of the files" in refusal(base)
