"""Chat templates: where a base keeps its own, and rendering it as transformers does.

Reads chat_template.jinja or `chat_template` in tokenizer_config.json of a base folder,
or the file of `prompt.template`; writes nothing. The template runs in the same sandbox,
with the same helpers, as in transformers; tests compare the two. Used by
pipeline/base/chat.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pipeline.base.artifacts import user_path
from pipeline.base.errors import UserError

Message = dict[str, str]

PROBE = "\u2063\u2064probe\u2064\u2063"
"""Stands for a problem while a template is watched (see constant_prompt.py)."""

FAULTS = (jinja2.exceptions.TemplateError, TypeError, ValueError, ArithmeticError, LookupError)
"""What a template raises on purpose, or by mistake at messages that it does not expect."""


class _GenerationTag(Extension):
    """Lets `{% generation %}` blocks pass: their content is rendered as it is."""

    tags = {"generation"}

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _refuse_the_date
    return environment


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.exceptions.TemplateError(message)


def _tojson(value: Any, ensure_ascii: bool = False, **form: Any) -> str:
    text = json.dumps(value, ensure_ascii=ensure_ascii, **form)
    if PROBE in text:
        raise jinja2.exceptions.TemplateError("the watched text is written in another form")
    return text


def _refuse_the_date(form: str) -> NoReturn:
    raise UserError(
        "the chat template prints today's date, so prompts would change from day to day",
        "Copy it, write a fixed date in place of strftime_now(...), and name the copy in"
        " `prompt.template`.",
    )


class ChatTemplate:
    """A compiled chat template.

    Attributes:
        path: the file that it was read from.
        source: its text.
    """

    def __init__(self, path: Path, source: str, special: dict[str, str]) -> None:
        self.path, self.source, self._special = path, source, special
        self.environment = _environment()
        try:
            self._compiled = self.environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise UserError(
                f"{path}: chat template, line {error.lineno}: {error.message}",
                "Copy the base again, or correct the file of `prompt.template`.",
            ) from None

    def render(
        self, messages: list[Message], options: dict[str, Any], *, add_generation_prompt: bool
    ) -> str:
        """The text of a conversation.

        Raises:
            UserError: the template refuses it.
        """
        try:
            return self.render_unguarded(messages, options, add_generation_prompt)
        except FAULTS as error:
            raise UserError(
                f"{self.path}: the chat template refuses the prompt ({error})",
                "Set `prompt.system` to null, use a base with another template, or name one in"
                " `prompt.template`.",
            ) from None

    def render_unguarded(
        self, messages: list[Message], options: dict[str, Any], add_generation_prompt: bool
    ) -> str:
        """As `render`, but faults of the template (`FAULTS`) are left as they are."""
        return self._compiled.render(
            messages=messages,
            tools=None,
            documents=None,
            add_generation_prompt=add_generation_prompt,
            **self._special,
            **options,
        )


def load_template(
    base: Path, config: dict[str, Any], special: dict[str, str], override: str | None
) -> ChatTemplate:
    """The template of `prompt.template`, else the base's own.

    Args:
        base: the base's folder.
        config: its tokenizer_config.json.
        special: named special tokens that the template may print.
        override: the setting `prompt.template`.

    Raises:
        UserError: there is none, or it cannot be read or compiled.
    """
    if override is not None:
        path = user_path(override)
        if not path.is_file():
            raise UserError(
                f"prompt.template: {path}: file not found",
                "Name a file with a Jinja chat template, or null for the base's own.",
            )
        return ChatTemplate(path, _read(path), special)
    separate = base / "chat_template.jinja"
    if separate.is_file():
        return ChatTemplate(separate, _read(separate), special)
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    if not isinstance(template, str):
        raise UserError(
            f"{base}: no chat template, neither chat_template.jinja nor `chat_template` in "
            "tokenizer_config.json",
            "Use an instruction-tuned base, or name a template in `prompt.template`.",
        )
    return ChatTemplate(base / "tokenizer_config.json", template, special)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 ({error.reason})", "Save it as UTF-8.") from None
