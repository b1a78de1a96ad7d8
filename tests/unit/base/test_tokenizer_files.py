"""What is read of a tokenizer's folder, and folders that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from pipeline.base.errors import UserError
from tests.support.prompts import PRINTS_FIRST_TOKEN, PROBLEM, chat_of, make_base, reference
from tests.support.tiny import CHATML, SPECIAL


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    base = make_base(tmp_path)
    (base / name).unlink()
    with pytest.raises(UserError, match=f"{name}: file not found"):
        chat_of(base)


@pytest.mark.parametrize("name", ["tokenizer.model", "tekken.json", "vocab.json"])
def test_a_tokenizer_in_another_format_comes_with_the_command_that_converts_it(
    tmp_path: Path, name: str
) -> None:
    base = make_base(tmp_path)
    (base / "tokenizer.json").rename(base / name)
    with pytest.raises(UserError, match=f"{name} is not read directly") as caught:
        chat_of(base)
    assert f"from_pretrained('{base}').backend_tokenizer.save(" in caught.value.remedy


def test_an_unknown_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"token '<\|none\|>' is not in the tokenizer's vocabulary"):
        chat_of(make_base(tmp_path, pad_token="<|none|>"))


def test_a_saved_length_limit_cuts_no_prompt(tmp_path: Path) -> None:
    base = make_base(tmp_path)
    wanted = chat_of(base).prompt_ids(PROBLEM)
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=200)
    tokenizer.save(str(base / "tokenizer.json"))
    assert chat_of(base).prompt_ids(PROBLEM) == wanted


def test_old_folders_name_their_tokens_in_a_file_of_their_own(tmp_path: Path) -> None:
    base = make_base(tmp_path, PRINTS_FIRST_TOKEN, bos_token=None)
    (base / "special_tokens_map.json").write_text(
        json.dumps({"bos_token": {"content": "<|endoftext|>"}})
    )
    chat = chat_of(base)
    assert chat.prompt_ids(PROBLEM)[0] == 0
    assert (chat.prompt_text(PROBLEM), chat.prompt_ids(PROBLEM)) == reference(base, chat)
    before = chat.tokenizer_sha256()
    (base / "special_tokens_map.json").write_text('{"bos_token": "<|im_end|>"}')
    assert chat_of(base).tokenizer_sha256() != before


def test_the_file_of_old_folders_has_no_say_in_new_ones(tmp_path: Path) -> None:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    decoder = {
        str(number): {"content": text, "special": True, **flags}
        for number, text in enumerate(SPECIAL)
    }
    base = make_base(
        tmp_path, PRINTS_FIRST_TOKEN, bos_token="<|endoftext|>", added_tokens_decoder=decoder
    )
    (base / "special_tokens_map.json").write_text('{"bos_token": "<|im_end|>"}')
    chat = chat_of(base)
    assert (chat.prompt_text(PROBLEM), chat.prompt_ids(PROBLEM)) == reference(base, chat)


def test_a_token_left_to_a_class_of_transformers_is_asked_for(tmp_path: Path) -> None:
    base = make_base(tmp_path, PRINTS_FIRST_TOKEN, bos_token=None, tokenizer_class="LlamaTokenizer")
    with pytest.raises(UserError, match="no `bos_token`, which the chat template uses"):
        chat_of(base)
    silent = make_base(tmp_path / "silent", CHATML, bos_token=None, tokenizer_class="Any")
    assert chat_of(silent).end_id == 2
