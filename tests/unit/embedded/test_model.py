"""The embedded base: same bytes everywhere, a mended tokenizer, a whole folder or none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, GenerationConfig, LlamaConfig

from pipeline.base.artifacts import is_complete, sha256_file
from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import model_shape
from pipeline.base.loading import load_base
from pipeline.embedded import model
from tests.support.settings import make_params

WEIGHTS = "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"


@pytest.fixture(scope="module")
def tokenizer(embedded_base: Path) -> Any:
    return AutoTokenizer.from_pretrained(str(embedded_base), local_files_only=True)


def test_weights_are_the_ones_that_transformers_makes_of_the_same_file(embedded_base: Path) -> None:
    assert sha256_file(embedded_base / "model.safetensors") == WEIGHTS
    assert is_complete(embedded_base)


def test_the_folder_holds_what_a_base_must_hold(embedded_base: Path) -> None:
    shape = model_shape(embedded_base)
    assert (shape.layers, shape.hidden, shape.heads, shape.kv_heads) == (30, 576, 9, 3)
    assert (shape.vocabulary, shape.tied_embeddings, shape.parameters) == (49152, True, 134515008)
    config = LlamaConfig.from_pretrained(str(embedded_base))
    assert config.rms_norm_eps == 1e-5
    assert json.loads((embedded_base / "config.json").read_text())["rope_theta"] == 100000.0


def test_replies_end_with_im_end(embedded_base: Path, tokenizer: Any) -> None:
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|im_end|>", 2)
    generation = GenerationConfig.from_pretrained(str(embedded_base))
    assert (generation.eos_token_id, generation.pad_token_id) == (2, 2)


def test_padding_is_set_and_goes_to_the_left(tokenizer: Any) -> None:
    batch = tokenizer(["a", "a longer text"], padding=True)
    assert batch["input_ids"][0][0] == tokenizer.pad_token_id == 2
    assert batch["attention_mask"][0][0] == 0
    assert set(batch) == {"input_ids", "attention_mask"}


def test_nothing_is_prepended(tokenizer: Any) -> None:
    assert tokenizer.convert_ids_to_tokens(tokenizer("Hello").input_ids) == ["Hello"]


@pytest.mark.parametrize("text", ["x  12", "7\n\n8", "12 + 35 - 7 = 40", "\\boxed{-103}"])
def test_digits_stand_alone(tokenizer: Any, text: str) -> None:
    ids = tokenizer(text).input_ids
    pieces = tokenizer.convert_ids_to_tokens(ids)
    assert all(len(piece) == 1 for piece in pieces if any(c.isdigit() for c in piece))
    assert tokenizer.decode(ids) == text


def test_the_template_keeps_its_own_system_prompt(embedded_base: Path) -> None:
    chat = Chat(embedded_base, make_params().prompt)
    assert chat.prompt_text("1 + 1").startswith(
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    )


def test_it_knows_the_capital_of_france(embedded_base: Path) -> None:
    prompt = make_params(**{"prompt.instruction": ""}).prompt
    chat = Chat(embedded_base, prompt)
    base = load_base(embedded_base, dtype="float32", device="cpu")
    ids = torch.tensor([chat.prompt_ids("What is the capital of France?")])
    with torch.inference_mode():
        out = base.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False
        )
    reply = out[0, ids.shape[1] :].tolist()
    assert "Paris" in chat.decode(reply)
    assert reply[-1] == chat.end_id


def test_names_become_those_of_transformers() -> None:
    names = {
        "blk.7.attn_q.weight": "model.layers.7.self_attn.q_proj.weight",
        "blk.0.ffn_norm.weight": "model.layers.0.post_attention_layernorm.weight",
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
    }
    assert {name: model.transformers_name(name) for name in names} == names


def test_rotary_pairs_become_halves() -> None:
    interleaved = np.array([[0], [10], [1], [11], [2], [12], [3], [13]])
    assert model.unpermute(interleaved, heads=2)[:, 0].tolist() == [0, 1, 10, 11, 2, 3, 12, 13]


def test_another_gguf_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    monkeypatch.setattr(model, "find_gguf", lambda: other)
    with pytest.raises(UserError, match=r"other\.gguf: SHA-256 is .* --force-reinstall"):
        model.make_base(tmp_path / "base")
    assert not (tmp_path / "base").exists()


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Instead of the model, a conversion writes one small file."""

    def convert(gguf: Path, folder: Path) -> None:
        (folder / "config.json").write_text("new")

    monkeypatch.setattr(model, "convert", convert)
    monkeypatch.setattr(
        model, "FILES", {"config.json": model.sha256_file(_write(tmp_path / "new", "new"))}
    )
    _write(tmp_path / "base" / "config.json", "old")
    return tmp_path / "base"


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_new_conversion_replaces_the_old_folder(quick: Path) -> None:
    model.make_base(quick)
    assert (quick / "config.json").read_text() == "new"
    assert is_complete(quick)
    assert sorted(path.name for path in quick.parent.iterdir()) == ["base", "new"]


def test_an_unexpected_result_leaves_the_old_folder(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "FILES", {"config.json": "0" * 64})
    with pytest.raises(UserError, match=r"expected 0{64}\. Install the release of gguf"):
        model.make_base(quick)
    assert (quick / "config.json").read_text() == "old"
    assert sorted(path.name for path in quick.parent.iterdir()) == ["base", "new"]


def test_the_command_names_the_fault_and_ends_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> Path:
        raise UserError("package is not installed", "Run `make setup`.")

    monkeypatch.setattr(model, "find_gguf", missing)
    assert model.main([str(tmp_path / "base")]) == 2
    assert model.main([]) == 2
    said = capsys.readouterr().err
    assert "embedded base: package is not installed. Run `make setup`." in said
    assert "usage: python -m pipeline.embedded.model OUT" in said
