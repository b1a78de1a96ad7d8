"""Tokenizer folders with all sorts of chat templates, and what transformers makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, trainers
from transformers import AutoTokenizer

from pipeline.base.chat import Chat
from tests.support.settings import make_params
from tests.support.tiny import CHATML, SPECIAL, TEXT, write_tiny_tokenizer

PROBLEM = "What is 12 + 35?"
SOLUTION = "First we add.\n\n\\boxed{47}"
SYSTEM = "Answer in English."

THINKING = """\
{%- set last = namespace(question=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' and not message.content.startswith('<tool_response>') %}
        {%- set last.question = loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set said = message.content %}
    {%- if message.role == 'assistant' %}
        {%- set thought = '' %}
        {%- if '</think>' in said %}
            {%- set thought = said.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
            {%- set said = said.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > last.question %}
            {%- set said = '<think>\\n' + thought + '\\n</think>\\n\\n' + said %}
        {%- endif %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + said + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
"""In the manner of the Qwen3 family: the thinking of earlier turns is dropped, the last turn
always gets a block, and switched off, thinking is an empty closed block of the prompt."""

MARKED = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}"
    "{{ '<|im_start|>assistant\n' }}{% generation %}{{ message['content'] }}{{ '<|im_end|>' }}"
    "{% endgeneration %}{% else %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HELPED = "{{ messages[0] | tojson }}{{ '<|im_start|>' if messages is iterable }}" + CHATML
PRINTS_FIRST_TOKEN = "{{ bos_token }}" + CHATML
OPENS_BLOCK = CHATML.replace("assistant\n' }}{% endif %}", "assistant\n<think>\n' }}{% endif %}")
"""As DeepSeek-R1: whatever is asked, the model starts inside a thinking block."""
DROPS_THINKING = CHATML.replace(
    "message['content'] + '<|im_end|>'", "message['content'].split('</think>')[-1] + '<|im_end|>'"
)
"""Of every turn, the last included, only what follows the thinking is printed."""


def make_base(folder: Path, template: str = CHATML, **config: Any) -> Path:
    """A tokenizer folder; `config` changes tokenizer_config.json, None removes a key."""
    write_tiny_tokenizer(folder, template)
    path = folder / "tokenizer_config.json"
    merged = {**json.loads(path.read_text()), **config}
    path.write_text(json.dumps({key: value for key, value in merged.items() if value is not None}))
    return folder


def spaced_base(folder: Path, template: str) -> Path:
    """A vocabulary in the manner of SentencePiece: a space goes before every text."""
    base = make_base(folder, template)
    tokenizer = Tokenizer(models.BPE(unk_token="<|endoftext|>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    alphabet = sorted(set("".join(TEXT) + SYSTEM + PROBLEM + SOLUTION + "<>/|_\n▁"))
    trainer = trainers.BpeTrainer(
        vocab_size=200, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([], trainer)
    tokenizer.save(str(base / "tokenizer.json"))
    return base


def chat_of(base: Path, **prompt: Any) -> Chat:
    """A `Chat` with some settings of `prompt` changed."""
    return Chat(
        base, make_params(**{f"prompt.{key}": value for key, value in prompt.items()}).prompt
    )


def messages_of(chat: Chat, problem: str = PROBLEM) -> list[dict[str, str]]:
    """The conversation that asks a problem."""
    messages = [{"role": "user", "content": chat.user_text(problem)}]
    if chat.prompt.system is not None:
        messages.insert(0, {"role": "system", "content": chat.prompt.system})
    return messages


def reference(base: Path, chat: Chat, problem: str = PROBLEM) -> tuple[str, list[int]]:
    """Text and ids of the same prompt by transformers."""
    thinking = chat.prompt.thinking
    options = {} if thinking == "template" else {"enable_thinking": thinking == "on"}
    tokenizer = AutoTokenizer.from_pretrained(str(base), local_files_only=True)
    messages = messages_of(chat, problem)
    text = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False, **options
    )
    encoded = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=True, **options
    )
    return str(text), list(encoded["input_ids"])


def conversation(base: Path, chat: Chat, reply: str) -> list[int]:
    """Ids of problem and reply together by transformers, the end token included."""
    return conversations(base, chat, [reply])[0]


def conversations(base: Path, chat: Chat, replies: list[str]) -> list[list[int]]:
    """The same for several replies to the same problem."""
    tokenizer = AutoTokenizer.from_pretrained(str(base), local_files_only=True)
    said = [[*messages_of(chat), {"role": "assistant", "content": reply}] for reply in replies]
    return [list(tokenizer.apply_chat_template(one, return_dict=True)["input_ids"]) for one in said]
