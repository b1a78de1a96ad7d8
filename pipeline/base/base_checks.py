"""Refuse a base folder whose parts do not fit together, before hours are spent on it.

Reads headers, configuration, tokenizer and template of a base, never its weights,
and writes nothing: a base may lie on a read-only disk. `python -m pipeline.prepare`
calls `check_base`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from tokenizers import Tokenizer

from pipeline.base.artifacts import read_json
from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import ModelShape, model_shape, read_config, tensor_shapes
from pipeline.base.params import PromptParams

OBJECTS = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "model.safetensors.index.json",
)  # fmt: skip
"""Files that hold one JSON object if they are there."""

EMBEDDING = "embed_tokens.weight"
ROLES = ("bos_token", "eos_token", "pad_token", "unk_token")

SAME_RELEASE = "Take tokenizer, configuration and weights from one release of the base."
COPY_AGAIN = "Copy the base again."


def check_base(base: Path, prompt: PromptParams) -> ModelShape:
    """Sizes of a base that training can start from.

    Raises:
        UserError: a file is missing or damaged, the model is no decoder, or weights,
            configuration, tokenizer and template disagree.
    """
    for name in OBJECTS:
        if (base / name).is_file():
            _object(base / name)
    _require_decoder(base, read_config(base))
    _require_shards(base)
    shape = model_shape(base)
    _require_embedding_rows(base, shape)
    tokenizer = _chat(base, prompt).tokenizer
    _require_rows_for_tokens(base, tokenizer, shape)
    _require_same_tokens(base, tokenizer)
    return shape


def _object(path: Path) -> dict[str, Any]:
    value = read_json(path, broken=COPY_AGAIN)
    if not isinstance(value, dict):
        raise UserError(f"{path}: holds a {type(value).__name__}, not an object", COPY_AGAIN)
    return value


def _require_decoder(base: Path, config: dict[str, Any]) -> None:
    architecture = str((config.get("architectures") or ["unknown"])[0])
    if config.get("is_encoder_decoder") or not architecture.endswith("ForCausalLM"):
        raise UserError(
            f"{base / 'config.json'}: architecture {architecture} is not a causal language model",
            "Use a decoder-only text model (…ForCausalLM).",
        )


def _require_shards(base: Path) -> None:
    """Every file and tensor that an index of shards names is there."""
    path = base / "model.safetensors.index.json"
    if not path.is_file():
        return
    places: dict[str, str] = _object(path).get("weight_map") or {}
    for file in sorted(set(places.values())):
        if not (base / file).is_file():
            raise UserError(f"{base / file}: file not found, but {path.name} names it", COPY_AGAIN)
    missing = sorted(places.keys() - tensor_shapes(base).keys())
    if missing:
        raise UserError(f"{path}: tensor {missing[0]} is in none of the files", COPY_AGAIN)


def _require_embedding_rows(base: Path, shape: ModelShape) -> None:
    for name, sides in tensor_shapes(base).items():
        if name.endswith(EMBEDDING) and sides != (shape.vocabulary, shape.hidden):
            raise UserError(
                f"{base}: {name} is {list(sides)}, but config.json says "
                f"vocab_size {shape.vocabulary} and hidden_size {shape.hidden}",
                SAME_RELEASE,
            )


def _chat(base: Path, prompt: PromptParams) -> Chat:
    """Tokenizer and template, which must be able to render a prompt."""
    path = base / "tokenizer.json"
    model = _object(path).get("model") if path.is_file() else {"vocab": {}}
    if not isinstance(model, dict) or "vocab" not in model:
        raise UserError(f"{path}: holds no vocabulary", COPY_AGAIN)
    try:
        chat = Chat(base, prompt)
    except jinja2.TemplateSyntaxError as error:
        raise UserError(
            f"{base}: chat template, line {error.lineno}: {error.message}", COPY_AGAIN
        ) from None
    if "1 + 1" not in chat.prompt_text("1 + 1"):
        raise UserError(
            f"{base}: the chat template leaves out the user's message",
            "Use an instruction-tuned base, or put its chat_template.jinja beside the tokenizer.",
        )
    return chat


def _require_rows_for_tokens(base: Path, tokenizer: Tokenizer, shape: ModelShape) -> None:
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values())
    if largest >= shape.vocabulary:
        raise UserError(
            f"{base}: tokenizer disagrees with the base: its largest id is {largest}, "
            f"the embedding has {shape.vocabulary} rows",
            SAME_RELEASE,
        )


def _require_same_tokens(base: Path, tokenizer: Tokenizer) -> None:
    """Tokens that tokenizer_config.json names exist, under the ids that it gives."""
    path = base / "tokenizer_config.json"
    config = _object(path)
    for role in ROLES:
        value = config.get(role)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str) and tokenizer.token_to_id(text) is None:
            raise UserError(f"{path}: {role} {text!r} is not in tokenizer.json", SAME_RELEASE)
    for number, token in (config.get("added_tokens_decoder") or {}).items():
        found = tokenizer.token_to_id(str(token["content"]))
        if found != int(number):
            raise UserError(
                f"{path}: token {token['content']!r} has id {number}, in tokenizer.json {found}",
                SAME_RELEASE,
            )
