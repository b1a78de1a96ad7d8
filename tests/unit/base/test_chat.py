"""Prompts and replies: the same ids as transformers, the loss on the reply and its end alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, processors
from transformers import AutoTokenizer

from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from tests.support.settings import make_params
from tests.support.tiny import CHATML, write_tiny_tokenizer

PROBLEM = "What is 12 + 35?"
SOLUTION = "First we add.\n\n\\boxed{47}"

THINKING = """\
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'system' %}{% continue %}{% endif %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '<think>' not in content %}
        {%- set content = '<think>\\n\\n</think>\\n\\n' + content %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
"""In the manner of the Qwen3 family: switched off, thinking is an empty closed block."""

MARKED = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}"
    "{{ '<|im_start|>assistant\n' }}{% generation %}{{ message['content'] }}{{ '<|im_end|>' }}"
    "{% endgeneration %}{% else %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HELPED = "{{ messages[0] | tojson }}{{ '<|im_start|>' if messages is iterable }}" + CHATML
OPENING = "{{ bos_token }}" + CHATML


def make_base(folder: Path, template: str = CHATML, **config: Any) -> Path:
    """A tokenizer folder; `config` changes tokenizer_config.json, None removes a key."""
    write_tiny_tokenizer(folder, template)
    path = folder / "tokenizer_config.json"
    merged = {**json.loads(path.read_text()), **config}
    path.write_text(json.dumps({key: value for key, value in merged.items() if value is not None}))
    return folder


def chat_of(base: Path, **prompt: Any) -> Chat:
    return Chat(
        base, make_params(**{f"prompt.{key}": value for key, value in prompt.items()}).prompt
    )


def reference(base: Path, chat: Chat) -> tuple[str, list[int]]:
    """Text and ids of the same prompt by transformers."""
    messages = [{"role": "user", "content": chat.user_text(PROBLEM)}]
    if chat.prompt.system is not None:
        messages.insert(0, {"role": "system", "content": chat.prompt.system})
    thinking = chat.prompt.thinking
    options = {} if thinking == "template" else {"enable_thinking": thinking == "on"}
    tokenizer = AutoTokenizer.from_pretrained(str(base), local_files_only=True)
    text = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False, **options
    )
    encoded = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=True, **options
    )
    return str(text), list(encoded["input_ids"])


@pytest.mark.parametrize("thinking", ["template", "on", "off"])
@pytest.mark.parametrize("system", [None, "Answer in English."])
@pytest.mark.parametrize("template", [CHATML, THINKING, MARKED, HELPED, OPENING])
def test_prompts_equal_those_of_transformers(
    tmp_path: Path, template: str, system: str | None, thinking: str
) -> None:
    base = make_base(tmp_path, template)
    chat = chat_of(base, system=system, thinking=thinking)
    text, ids = reference(base, chat)
    assert chat.prompt_text(PROBLEM) == text
    assert chat.prompt_ids(PROBLEM) == ids


@pytest.mark.parametrize("system", [None, "Answer in English."])
def test_prompts_of_the_embedded_base_equal_those_of_transformers(
    embedded_base: Path, system: str | None
) -> None:
    chat = chat_of(embedded_base, system=system)
    assert (chat.prompt_text(PROBLEM), chat.prompt_ids(PROBLEM)) == reference(embedded_base, chat)
    assert (chat.end_text, chat.end_id, chat.pad_id) == ("<|im_end|>", 2, 2)


def test_the_user_message_is_the_problem_and_the_instruction(tmp_path: Path) -> None:
    base = make_base(tmp_path)
    assert chat_of(base, instruction=" Box it. ").user_text(" 1 + 1\n") == "1 + 1\n\nBox it."
    assert chat_of(base, instruction="").user_text(" 1 + 1\n") == "1 + 1"


def test_a_reply_is_encoded_apart_and_closed_by_the_end_token(tmp_path: Path) -> None:
    chat = chat_of(make_base(tmp_path))
    encoded = chat.encode(PROBLEM, "", SOLUTION)
    assert encoded.prompt == chat.prompt_ids(PROBLEM)
    assert encoded.reply[-1] == chat.end_id
    assert encoded.reply.count(chat.end_id) == 1
    assert (
        chat.tokenizer.decode(encoded.reply, skip_special_tokens=False) == SOLUTION + "<|im_end|>"
    )
    assert chat.decode(encoded.reply) == SOLUTION


@pytest.mark.parametrize("template", [CHATML, MARKED])
def test_prompt_and_reply_together_are_the_rendered_conversation(
    tmp_path: Path, template: str
) -> None:
    base = make_base(tmp_path, template)
    chat = chat_of(base)
    encoded = chat.encode(PROBLEM, "", SOLUTION)
    tokenizer = AutoTokenizer.from_pretrained(str(base), local_files_only=True)
    whole = tokenizer.apply_chat_template(
        [
            {"role": "user", "content": chat.user_text(PROBLEM)},
            {"role": "assistant", "content": SOLUTION},
        ],
        tokenize=False,
    )
    joined = chat.tokenizer.decode([*encoded.prompt, *encoded.reply], skip_special_tokens=False)
    assert joined == whole.rstrip("\n")


def test_switched_off_thinking_is_an_empty_block_of_the_prompt(tmp_path: Path) -> None:
    chat = chat_of(make_base(tmp_path, THINKING), thinking="off")
    encoded = chat.encode(PROBLEM, "Add them.", SOLUTION)
    assert chat.prompt_text(PROBLEM).endswith("assistant\n<think>\n\n</think>\n\n")
    assert chat.decode(encoded.reply) == f"Add them.\n\n{SOLUTION}"


@pytest.mark.parametrize("thinking", ["template", "on"])
def test_reasoning_is_learnt_inside_its_tags(tmp_path: Path, thinking: str) -> None:
    chat = chat_of(make_base(tmp_path, THINKING), thinking=thinking)
    assert chat.prompt_text(PROBLEM).endswith("<|im_start|>assistant\n")
    assert (
        chat.reply_text(" Add them.\n", SOLUTION) == f"<think>\nAdd them.\n</think>\n\n{SOLUTION}"
    )
    assert chat.reply_text("", f" {SOLUTION}\n") == SOLUTION


def test_the_end_token_is_the_one_that_the_template_prints(tmp_path: Path) -> None:
    chat = chat_of(make_base(tmp_path, eos_token="<|endoftext|>", pad_token="<|endoftext|>"))
    assert (chat.end_text, chat.end_id, chat.pad_id) == ("<|im_end|>", 2, 0)


def test_without_one_in_the_template_the_configured_end_token_holds(tmp_path: Path) -> None:
    silent = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    deaf = "<|im_start|>{{ messages[0]['content'] }}"
    assert chat_of(make_base(tmp_path, deaf)).end_text == "<|im_end|>"
    assert chat_of(make_base(tmp_path, silent)).end_text == "<|im_end|>"
    base = make_base(tmp_path, silent, eos_token=None)
    with pytest.raises(UserError, match="names an end token"):
        chat_of(base)


def test_without_a_padding_token_the_end_token_pads(tmp_path: Path) -> None:
    assert chat_of(make_base(tmp_path, pad_token=None)).pad_id == 2


def test_a_token_in_the_long_form_is_understood(tmp_path: Path) -> None:
    chat = chat_of(make_base(tmp_path, pad_token={"content": "<|endoftext|>", "lstrip": False}))
    assert chat.pad_id == 0


def test_an_unknown_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"token '<\|none\|>' is not in the tokenizer's vocabulary"):
        chat_of(make_base(tmp_path, pad_token="<|none|>"))


def test_the_first_token_comes_once_though_template_and_tokenizer_both_add_it(
    tmp_path: Path,
) -> None:
    plain = "{% for message in messages %}{{ message['content'] }}<|im_end|>{% endfor %}"
    base = make_base(tmp_path, "{{ bos_token }}" + plain)
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)]
    )
    tokenizer.save(str(base / "tokenizer.json"))
    chat = chat_of(base)
    encoded = chat.encode(PROBLEM, "", SOLUTION)
    assert encoded.prompt == chat.prompt_ids(PROBLEM)
    assert [*encoded.prompt, *encoded.reply].count(1) == 1
    assert encoded.prompt[0] == 1


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


@pytest.mark.parametrize("template", [None, [{"name": "tool_use", "template": CHATML}]])
def test_a_base_without_template_is_refused(tmp_path: Path, template: Any) -> None:
    base = make_base(tmp_path, chat_template=template)
    (base / "chat_template.jinja").unlink()
    with pytest.raises(UserError, match=r"no chat template.*Use an instruction-tuned base"):
        chat_of(base)


def test_a_template_that_refuses_the_system_role_says_how_to_go_on(tmp_path: Path) -> None:
    picky = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    )
    base = make_base(tmp_path, picky + CHATML)
    assert chat_of(base, system=None).end_id == 2
    with pytest.raises(UserError, match=r"\(no system role\)\. Set `prompt\.system` to null"):
        chat_of(base, system="Be brief.")


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    base = make_base(tmp_path)
    (base / name).unlink()
    with pytest.raises(UserError, match=f"{name}: file not found"):
        chat_of(base)


def test_a_block_that_the_prompt_opened_is_not_opened_again(tmp_path: Path) -> None:
    opened = CHATML.replace("assistant\n' }}{% endif %}", "assistant\n<think>\n' }}{% endif %}")
    chat = chat_of(make_base(tmp_path, opened))
    assert chat.prompt_text(PROBLEM).endswith("<think>\n")
    whole = chat.prompt_text(PROBLEM) + chat.reply_text("Add them.", SOLUTION)
    assert whole.count("<think>") == whole.count("</think>") == 1
    without = chat.prompt_text(PROBLEM) + chat.reply_text("", SOLUTION)
    assert without.count("<think>") == without.count("</think>") == 1
