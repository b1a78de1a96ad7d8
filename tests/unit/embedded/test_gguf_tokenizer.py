"""A tokenizer written from GGUF tables, on a vocabulary of a dozen tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tokenizers import Tokenizer

from pipeline.embedded.gguf_tokenizer import token, tokenizer_config_json, tokenizer_json

TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "1", "2", "Ġ", "a", "b", "ab", "12", "Ġa"]
FIELDS: dict[str, Any] = {
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3, 3, 3] + [1] * 8,
    "tokenizer.ggml.merges": ["a b", "1 2", "Ġ a"],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.padding_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.chat_template": "{{ messages }}",
    "llama.context_length": 64,
}


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.from_str(json.dumps(tokenizer_json(FIELDS)))


def test_merges_apply_to_letters_and_never_to_digits(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("ab12").tokens == ["ab", "1", "2"]


def test_special_tokens_are_taken_whole_and_nothing_is_added(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("<|im_start|>a<|im_end|>").ids == [1, 6, 2]
    assert tokenizer.decode([1, 6, 2], skip_special_tokens=True) == "a"


def test_a_leading_blank_survives_the_way_back(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode(" a").ids == [10]
    assert tokenizer.decode([10, 3]) == " a1"


def test_a_byte_without_a_token_stays_visible(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("z").tokens == ["<|endoftext|>"]


def test_the_config_names_the_roles_of_the_file() -> None:
    config = tokenizer_config_json(FIELDS)
    assert (config["eos_token"], config["pad_token"]) == ("<|im_end|>", "<|im_end|>")
    assert (config["bos_token"], config["unk_token"]) == ("<|im_start|>", "<|endoftext|>")
    assert config["model_max_length"] == 64
    assert token(FIELDS, "eos") == "<|im_end|>"
