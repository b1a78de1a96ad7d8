"""The embedded base's tokenizer, written from the tables inside the GGUF file.

Written out rather than converted by transformers, whose result differs between
releases and, for this file, ends replies with the wrong token, has no padding
token, puts a token before every text and joins digits (docs/embedded.md).
`pipeline.embedded.model` calls it; nothing here reads or writes files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CONTROL = 3
"""GGUF token type of a special token."""

Fields = Mapping[str, Any]
"""Metadata of a GGUF file: key → value."""


def token(fields: Fields, role: str) -> str:
    """Text of the token with a role: "bos", "eos", "padding" or "unknown"."""
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    return tokens[fields[f"tokenizer.ggml.{role}_token_id"]]


def tokenizer_json(fields: Fields) -> dict[str, Any]:
    """tokenizer.json: byte-level BPE that takes digits one by one and prepends nothing."""
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    types: list[int] = fields["tokenizer.ggml.token_type"]
    byte_level = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True,
    }  # fmt: skip
    digits = {"type": "Digits", "individual_digits": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": text, **_added()}
            for number, text in enumerate(tokens)
            if types[number] == CONTROL
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": token(fields, "unknown"),
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text: number for number, text in enumerate(tokens)},
            "merges": fields["tokenizer.ggml.merges"],
        },
    }


def _added() -> dict[str, bool]:
    """Flags of a special token; `normalized` false: it is matched as it stands."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {**flags, "special": True}


def tokenizer_config_json(fields: Fields) -> dict[str, Any]:
    """tokenizer_config.json, which transformers 4 and 5 read alike.

    Left padding, since a batch of prompts is continued; the list of model inputs
    leaves out token types, which a Llama refuses.
    """
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": token(fields, "bos"),
        "eos_token": token(fields, "eos"),
        "pad_token": token(fields, "padding"),
        "unk_token": token(fields, "unknown"),
        "model_max_length": fields["llama.context_length"],
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "left",
        "clean_up_tokenization_spaces": False,
        "chat_template": fields["tokenizer.chat_template"],
    }
