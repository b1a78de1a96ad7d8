"""Where the chat template comes from, and templates that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.base.errors import UserError
from tests.support.prompts import MARKED, PROBLEM, THINKING, chat_of, make_base, reference
from tests.support.tiny import CHATML


def test_templates_by_name_give_the_default_one(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": CHATML}]
    base = make_base(tmp_path, chat_template=named)
    (base / "chat_template.jinja").unlink()
    chat = chat_of(base)
    assert (chat.prompt_text(PROBLEM), chat.prompt_ids(PROBLEM)) == reference(base, chat)


def test_a_template_file_goes_before_the_configured_one(tmp_path: Path) -> None:
    base = make_base(tmp_path, THINKING, chat_template="{{ 'other' }}")
    chat = chat_of(base)
    assert chat.prompt_text(PROBLEM) == reference(base, chat)[0]


def test_the_template_of_the_params_goes_before_the_base_s(tmp_path: Path) -> None:
    own = tmp_path / "own.jinja"
    own.write_text("{{ bos_token }}" + MARKED)
    base = make_base(tmp_path / "base", bos_token="<|endoftext|>")
    chat = chat_of(base, template=str(own))
    assert chat.prompt_text(PROBLEM).startswith("<|endoftext|><|im_start|>user\n")
    (base / "chat_template.jinja").write_text(own.read_text())
    assert (chat.prompt_text(PROBLEM), chat.prompt_ids(PROBLEM)) == reference(base, chat)


def test_the_template_of_the_params_serves_a_base_without_one(tmp_path: Path) -> None:
    own = tmp_path / "own.jinja"
    own.write_text(CHATML)
    base = make_base(tmp_path / "base")
    (base / "chat_template.jinja").unlink()
    assert chat_of(base, template=str(own)).end_id == 2


def test_a_template_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    base = make_base(tmp_path)
    with pytest.raises(UserError, match=r"prompt\.template: .*none\.jinja: file not found"):
        chat_of(base, template=str(tmp_path / "none.jinja"))
    (tmp_path / "latin.jinja").write_bytes("é".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin\.jinja: not UTF-8"):
        chat_of(base, template=str(tmp_path / "latin.jinja"))


def test_a_syntax_fault_names_file_and_line(tmp_path: Path) -> None:
    base = make_base(tmp_path, "{{ bos_token }}\n{% for message in %}")
    with pytest.raises(UserError, match=r"chat_template\.jinja: chat template, line 2"):
        chat_of(base)


@pytest.mark.parametrize("template", [None, [{"name": "tool_use", "template": CHATML}]])
def test_a_base_without_template_is_refused(tmp_path: Path, template: Any) -> None:
    base = make_base(tmp_path, chat_template=template)
    (base / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match=r"no chat template.*Use an instruction-tuned base"):
        chat_of(base)


def test_a_template_that_prints_the_date_is_refused(tmp_path: Path) -> None:
    dated = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}"
    with pytest.raises(UserError, match=r"today's date.*fixed date .*`prompt\.template`"):
        chat_of(make_base(tmp_path, dated + CHATML))
    unused = "{% if tools %}{{ strftime_now('%Y') }}{% endif %}"
    assert chat_of(make_base(tmp_path / "unused", unused + CHATML)).end_id == 2


@pytest.mark.parametrize(
    "fault", ["{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{{ none.x.y }}", "{{ [][''] }}"]
)
def test_a_template_that_fails_is_named(tmp_path: Path, fault: str) -> None:
    template = CHATML + "{% if add_generation_prompt %}" + fault + "{% endif %}"
    if fault == "{{ [][''] }}":  # undefined, and printed as nothing
        assert chat_of(make_base(tmp_path, template)).end_id == 2
        return
    with pytest.raises(UserError, match=r"chat_template\.jinja: the chat template refuses"):
        chat_of(make_base(tmp_path, template))
