"""The tokenizer of a base folder, read without transformers.

Reads tokenizer.json, tokenizer_config.json and, where that does not describe its added
tokens, special_tokens_map.json; writes nothing. Used by pipeline/base/chat.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from pipeline.base.artifacts import canonical_hash, read_json, sha256_file
from pipeline.base.errors import UserError
from pipeline.base.templates import ChatTemplate, load_template

NAMED = ("bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token")
OTHER_FORMATS = ("tokenizer.model", "tekken.json", "vocab.json")
PLAIN_CLASSES = (None, "PreTrainedTokenizerFast", "TokenizersBackend")
"""Tokenizer classes of transformers that name no special token by themselves."""


@dataclass(frozen=True)
class TokenizerFiles:
    """What a base's folder says about text and token ids."""

    base: Path
    tokenizer: Tokenizer
    special: dict[str, str]
    """Named special tokens that are set, `eos_token` and so on → their text."""
    template: ChatTemplate
    read: dict[str, Path]
    """Every file that decides ids, under a name that does not depend on the folder."""

    def sha256(self) -> str:
        """One hash over the bytes of all files that decide ids, template included."""
        return canonical_hash({name: sha256_file(path) for name, path in self.read.items()})

    def id_of(self, text: str) -> int:
        """Id of a token.

        Raises:
            UserError: the vocabulary does not hold it.
        """
        found = self.tokenizer.token_to_id(text)
        if found is None:
            raise UserError(
                f"{self.base}: token {text!r} is not in the tokenizer's vocabulary",
                "Take tokenizer and weights from the same release of the base.",
            )
        return int(found)


def read_tokenizer_files(base: Path, template: str | None) -> TokenizerFiles:
    """Tokenizer and chat template of a base.

    Args:
        base: folder with tokenizer.json and tokenizer_config.json.
        template: the setting `prompt.template`.

    Raises:
        UserError: a file is missing or cannot be used.
    """
    tokenizer = _tokenizer(base)
    path = base / "tokenizer_config.json"
    if not path.is_file():
        raise UserError(f"{path}: file not found", "Copy it from the base's release.")
    config = dict(read_json(path, broken="Copy the base again."))
    read = {name: base / name for name in ("tokenizer.json", "tokenizer_config.json")}
    legacy = base / "special_tokens_map.json"
    if "added_tokens_decoder" not in config and legacy.is_file():
        # Where transformers looks too, for folders that were saved before 2023.
        config |= read_json(legacy, broken="Copy the base again.")
        read[legacy.name] = legacy
    special = _special_tokens(config)
    chosen = load_template(base, config, special, template)
    _require_known_tokens(base, config, chosen)
    if template is not None:
        read["prompt.template"] = chosen.path
    elif chosen.path.name == "chat_template.jinja":
        read[chosen.path.name] = chosen.path
    return TokenizerFiles(base, tokenizer, special, chosen, read)


def _tokenizer(base: Path) -> Tokenizer:
    path = base / "tokenizer.json"
    if path.is_file():
        tokenizer = Tokenizer.from_file(str(path))
        # tokenizer.json may carry a length limit or padding of whoever saved it last.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer
    for name in OTHER_FORMATS:
        if (base / name).is_file():
            raise UserError(
                f"{path}: file not found, and {name} is not read directly",
                'Convert it: python -c "from transformers import AutoTokenizer as T; T.from_'
                f"pretrained('{base}').backend_tokenizer.save('{path}')\" (with sentencepiece,"
                " tiktoken and protobuf installed).",
            )
    raise UserError(f"{path}: file not found", "Point `base.path` to a folder with tokenizer.json.")


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    """Named special tokens that are set; a template may ask whether one is defined."""
    found: dict[str, str] = {}
    for name in NAMED:
        value = config.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            found[name] = value
    return found


def _require_known_tokens(base: Path, config: dict[str, Any], template: ChatTemplate) -> None:
    """No token that the template prints is left to a tokenizer class of transformers."""
    if config.get("tokenizer_class") in PLAIN_CLASSES:
        return
    for name in NAMED:
        if name in template.source and name not in config:
            raise UserError(
                f"{base / 'tokenizer_config.json'}: no `{name}`, which the chat template uses",
                f"Write `{name}` into it: the token, or null if the base has none.",
            )
