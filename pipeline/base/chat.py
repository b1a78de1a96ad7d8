"""The one way a problem becomes a prompt: training, evaluation and panel use it.

Works on the files of a base folder with `tokenizers` and `jinja2` alone, so that
stages that only count tokens never import torch. The template is rendered in the
same sandbox, with the same helpers, as transformers uses; tests compare the two.

A prompt is rendered up to where generation starts and encoded by itself; a reply
is encoded by itself and closed by the template's end token. Because the two are
never encoded together, the boundary of the loss mask is exact, and the ids that
training sees are the ids that decoding starts from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from pipeline.base.errors import UserError
from pipeline.base.params import PromptParams

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"

SENTINEL = "\u2063reply\u2063"
"""Stands for a reply when the text around it in a template is looked for."""


class _GenerationTag(Extension):
    """Lets `{% generation %}` blocks pass: their content is rendered as it is."""

    tags = {"generation"}

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def _environment() -> ImmutableSandboxedEnvironment:
    def raise_exception(message: str) -> NoReturn:
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value: Any, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


@dataclass(frozen=True)
class Encoded:
    """Token ids of a prompt and of the reply to be learnt, end token included."""

    prompt: list[int]
    reply: list[int]


class Chat:
    """Prompt and reply text, and their token ids, for one base and one prompt style.

    Attributes:
        tokenizer: the base's tokenizer.
        end_id: id of the token that ends a reply; it is trained, and stops decoding.
        pad_id: id that fills unused places; never trained, never attended to.
    """

    def __init__(self, base: Path, prompt: PromptParams) -> None:
        self.base, self.prompt = base, prompt
        self.tokenizer = _load_tokenizer(base)
        self._config = _load_config(base)
        self._template = _environment().from_string(_load_template(base, self._config))
        self._special = _special_tokens(self._config)
        self._block_is_open = self.prompt_text("1").rstrip().endswith(THINK_OPEN)
        self.end_text = self._find_end()
        self.end_id = self._token_id(self.end_text)
        pad = self._special.get("pad_token")
        self.pad_id = self._token_id(pad) if pad else self.end_id

    def user_text(self, problem: str) -> str:
        """The user's message: the problem, a blank line, the instruction."""
        instruction = self.prompt.instruction.strip()
        return f"{problem.strip()}\n\n{instruction}" if instruction else problem.strip()

    def prompt_text(self, problem: str) -> str:
        """The prompt up to the first character that the model must write."""
        return self._render(self._messages(problem), add_generation_prompt=True)

    def reply_text(self, thinking: str, solution: str) -> str:
        """What the model must write, without the end token.

        With `thinking: off` the template has already closed an empty thinking
        block, so the reasoning becomes part of the visible reply. A template
        whose prompt ends inside an open block leaves the opening tag out here;
        the block is then closed at once by a trace without thinking.
        """
        thinking, solution = thinking.strip(), solution.strip()
        if self._block_is_open:
            return f"{thinking}\n{THINK_CLOSE}\n\n{solution}"
        if not thinking:
            return solution
        if self.prompt.thinking == "off":
            return f"{thinking}\n\n{solution}"
        return f"{THINK_OPEN}\n{thinking}\n{THINK_CLOSE}\n\n{solution}"

    def prompt_ids(self, problem: str) -> list[int]:
        """Token ids of `prompt_text`: what decoding starts from."""
        return self._encode(self.prompt_text(problem))

    def encode(self, problem: str, thinking: str, solution: str) -> Encoded:
        """Token ids to learn from; only `reply` carries loss."""
        reply = self._encode(self.reply_text(thinking, solution))
        return Encoded(self.prompt_ids(problem), [*reply, self.end_id])

    def decode(self, ids: list[int]) -> str:
        """Text of generated ids, special tokens left out."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def _encode(self, text: str) -> list[int]:
        # The template prints its own special tokens; adding more would double them.
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def _messages(self, problem: str) -> list[dict[str, str]]:
        messages = [{"role": "user", "content": self.user_text(problem)}]
        if self.prompt.system is not None:
            messages.insert(0, {"role": "system", "content": self.prompt.system})
        return messages

    def _render(self, messages: list[dict[str, str]], *, add_generation_prompt: bool) -> str:
        options: dict[str, Any] = {}
        if self.prompt.thinking != "template":
            options["enable_thinking"] = self.prompt.thinking == "on"
        try:
            return self._template.render(
                messages=messages,
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._special,
                **options,
            )
        except jinja2.exceptions.TemplateError as error:
            raise UserError(
                f"{self.base}: the chat template refuses the prompt ({error})",
                "Set `prompt.system` to null or use a base with another template.",
            ) from None

    def _find_end(self) -> str:
        """The first special token that the template prints after a reply."""
        messages = [*self._messages("1"), {"role": "assistant", "content": SENTINEL}]
        _, printed, after = self._render(messages, add_generation_prompt=False).rpartition(SENTINEL)
        after = after if printed else ""
        added = self.tokenizer.get_added_tokens_decoder().values()
        found = [(after.find(token.content), token.content) for token in added]
        found = [(place, text) for place, text in found if place >= 0]
        end = min(found)[1] if found else self._special.get("eos_token")
        if not end:
            raise UserError(
                f"{self.base}: neither chat template nor tokenizer_config.json names an end token",
                "Set `eos_token` in tokenizer_config.json.",
            )
        return end

    def _token_id(self, text: str) -> int:
        found = self.tokenizer.token_to_id(text)
        if found is None:
            raise UserError(
                f"{self.base}: token {text!r} is not in the tokenizer's vocabulary",
                "Take tokenizer and weights from the same release of the base.",
            )
        return int(found)


def _load_tokenizer(base: Path) -> Tokenizer:
    path = base / "tokenizer.json"
    if not path.is_file():
        raise UserError(
            f"{path}: file not found", "Point `base.path` to a folder with tokenizer.json."
        )
    tokenizer = Tokenizer.from_file(str(path))
    # tokenizer.json may carry a length limit or padding of whoever saved it last.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _load_config(base: Path) -> dict[str, Any]:
    path = base / "tokenizer_config.json"
    if not path.is_file():
        raise UserError(f"{path}: file not found", "Copy it from the base's release.")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _load_template(base: Path, config: dict[str, Any]) -> str:
    separate = base / "chat_template.jinja"
    if separate.is_file():
        return separate.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    if not isinstance(template, str):
        raise UserError(
            f"{base}: no chat template, neither chat_template.jinja nor `chat_template` in "
            "tokenizer_config.json",
            "Use an instruction-tuned base, or put its chat_template.jinja beside the tokenizer.",
        )
    return template


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    """Named special tokens that are set; a template may ask whether one is defined."""
    found: dict[str, str] = {}
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        value = config.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            found[name] = value
    return found
