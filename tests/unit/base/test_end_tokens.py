"""The token that ends a reply, all those that stop decoding, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.end_tokens import declared_end_ids
from pipeline.base.errors import UserError
from tests.support.prompts import chat_of, make_base
from tests.support.tiny import CHATML


def with_settings(base: Path, **files: Any) -> Path:
    for name, content in files.items():
        (base / f"{name}.json").write_text(json.dumps(content))
    return base


def test_the_end_token_is_the_one_that_the_template_prints(tmp_path: Path) -> None:
    chat = chat_of(make_base(tmp_path, eos_token="<|endoftext|>"))
    assert (chat.end_text, chat.end_id) == ("<|im_end|>", 2)


def test_without_one_in_the_template_the_configured_end_token_holds(tmp_path: Path) -> None:
    silent = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    deaf = "<|im_start|>{{ messages[0]['content'] }}"
    assert chat_of(make_base(tmp_path, deaf)).end_text == "<|im_end|>"
    assert chat_of(make_base(tmp_path, silent)).end_text == "<|im_end|>"
    base = make_base(tmp_path, silent, eos_token=None)
    with pytest.raises(UserError, match="names an end token"):
        chat_of(base)


def test_text_between_reply_and_end_token_is_refused_blanks_are_not(tmp_path: Path) -> None:
    told = CHATML.replace("+ '<|im_end|>'", "+ ' Done. <|im_end|>'")
    with pytest.raises(UserError, match=r"prints ' Done\. ' between a reply and its end token"):
        chat_of(make_base(tmp_path, told))
    blank = CHATML.replace("+ '<|im_end|>'", "+ ' <|im_end|>'")
    assert chat_of(make_base(tmp_path, blank)).end_text == "<|im_end|>"


def test_of_two_tokens_at_one_place_the_longer_ends_and_blank_ones_never(tmp_path: Path) -> None:
    base = make_base(tmp_path, CHATML.replace("<|im_end|>", " <|im_end|>!"))
    path = base / "tokenizer.json"
    tree = json.loads(path.read_text())
    for content in ("<|im_end|>!", "\n\n", " "):
        tree["added_tokens"].append(
            {**tree["added_tokens"][-1], "id": 400 + len(content), "content": content}
        )
    path.write_text(json.dumps(tree))
    assert chat_of(base).end_text == "<|im_end|>!"


@pytest.mark.parametrize(
    ("files", "declared", "stops"),
    [
        ({}, [], (2,)),
        ({"config": {"eos_token_id": 0}}, [0], (2, 0)),
        ({"config": {"eos_token_id": 0}, "generation_config": {"eos_token_id": 2}}, [2], (2,)),
        ({"generation_config": {"eos_token_id": [5, 2, 0]}}, [5, 2, 0], (2, 0, 5)),
    ],
)
def test_decoding_stops_at_the_trained_and_the_declared_tokens(
    tmp_path: Path, files: dict[str, Any], declared: list[int], stops: tuple[int, ...]
) -> None:
    base = with_settings(make_base(tmp_path), **files)
    chat = chat_of(base)
    assert declared_end_ids(base) == declared
    assert chat.end_ids == stops
    assert chat.generation_settings() == {"eos_token_id": list(stops), "pad_token_id": 2}


def test_decoding_stops_at_the_end_token_of_the_tokenizer_too(tmp_path: Path) -> None:
    assert chat_of(make_base(tmp_path, eos_token="<|endoftext|>")).end_ids == (2, 0)


def test_the_plan_is_told_when_the_base_ends_otherwise(tmp_path: Path) -> None:
    """B07."""
    base = with_settings(make_base(tmp_path), generation_config={"eos_token_id": 0})
    said = chat_of(base).end_warning()
    assert said is not None
    assert "replies end with '<|im_end|>' (id 2)" in said
    assert "generation settings name '<|endoftext|>'" in said
    assert "set eos_token_id to [2, 0]" in said
    with_settings(base, generation_config={"eos_token_id": [0, 2]})
    assert chat_of(base).end_warning() is None


def test_the_plan_is_told_when_the_base_names_no_end(tmp_path: Path) -> None:
    said = chat_of(make_base(tmp_path)).end_warning()
    assert said is not None
    assert "name no end token: whoever decodes must set eos_token_id to [2]" in said
