"""A prompt put together from constants is, character by character, the rendered one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.base.chat import Chat
from tests.support.prompts import DROPS_THINKING, MARKED, OPENS_BLOCK, THINKING, chat_of, make_base
from tests.support.tiny import CHATML

TRIMMING = "{% for m in messages %}{{ m.content | trim }}<|im_end|>{% endfor %}"
NUMBERED = (
    "{% for m in messages %}{% if loop.index0 % 2 == 0 and m.content == 'x' %}X{% endif %}"
    "{{ m.content.rstrip('!') + '<|im_end|>' }}{% endfor %}"
)
CONSTANT = {
    "chatml": CHATML, "thinking": THINKING, "marked": MARKED, "opens": OPENS_BLOCK,
    "drops": DROPS_THINKING.replace("['content'].split('</think>')[-1]", "['content']"),
    "trimming": TRIMMING, "numbered": NUMBERED,
}  # fmt: skip

PIECES = st.sampled_from(
    ["<tool_response>", "</tool_response>", "<think>", "</think>", "x", "!", " ", "\n", "\u2063",
     "{{ bos_token }}", "{% raise %}", "\\", '"', "<|im_end|>", "\u2063\u2064probe\u2064\u2063"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=6), max_size=6).map("".join)


@pytest.fixture(scope="module", params=CONSTANT)
def chat(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Chat:
    base = make_base(tmp_path_factory.mktemp(request.param), CONSTANT[request.param])
    return chat_of(base, instruction="")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(problem=TEXTS)
def test_every_text_gives_the_rendered_prompt(chat: Chat, problem: str) -> None:
    assert chat.prompt_text(problem) == chat.rendered(problem)


def test_ordinary_problems_are_not_rendered(chat: Chat) -> None:
    assert chat._constant is not None
    assert chat._constant.around("What is 12 + 35?") == chat.rendered("What is 12 + 35?")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("thinking", "<tool_response>1"),
        ("numbered", "x"),
        ("numbered", "Sum!"),
    ],
)
def test_a_text_that_answers_otherwise_is_rendered(tmp_path: Path, name: str, problem: str) -> None:
    chat = chat_of(make_base(tmp_path, CONSTANT[name]), instruction="")
    assert chat._constant is not None
    assert chat._constant.around(problem) is None
    assert chat.prompt_text(problem) == chat.rendered(problem)


CURIOUS = [
    "{% if c | length > 9 %}L{% endif %}",
    "{% if c.split()[0] == 'alpha' %}S{% endif %}",
    "{% if c[0] == 'a' %}I{% endif %}",
    "{% if c[:1] == 'a' %}I{% endif %}",
    "{% if c < 'b' %}<{% endif %}",
    "{% if c in 'alphabet and alpha beta gamma' %}I{% endif %}",
    "{% if c == 'alpha ' + 'beta gamma' %}E{% endif %}",
    "{% if (c ~ '') | length > 9 %}T{% endif %}",
    "{% if ('%s' % c) | length > 9 %}M{% endif %}",
    "{% if ('%s' % (c,)) | length > 9 %}M{% endif %}",
    "{% if ''.join([c]) | length > 9 %}J{% endif %}",
    "{% if ([c] | join) | length > 9 %}J{% endif %}",
    "{% if 'a'.replace('a', c) | length > 9 %}R{% endif %}",
    "{% if '{}'.format(c) | length > 9 %}F{% endif %}",
    "{% if (c | upper) == 'ALPHA BETA GAMMA' %}U{% endif %}",
    "{% if (c | tojson) | length > 12 %}J{% endif %}",
    "{% if (messages | tojson) | length > 50 %}J{% endif %}",
    "{% if (messages | string) | length > 50 %}J{% endif %}",
    "{% if (c | wordcount) == 3 %}W{% endif %}",
    "{% if (c | list) | length > 9 %}W{% endif %}",
    "{% if (c * 2) | length > 18 %}D{% endif %}",
    "{% if ('<' + c).startswith('<alpha') %}P{% endif %}",
    "{% if {'alpha beta gamma': 1}[c] is defined %}H{% endif %}",
    "{% set copy %}{{ c }}{% endset %}{% if copy | length > 9 %}B{% endif %}",
    "{% macro f(x) %}{{ x }}{% endmacro %}{% if f(c) | length > 9 %}F{% endif %}",
    "{% for letter in c %}{% if letter == 'g' %}G{% endif %}{% endfor %}",
    "{% if c.count('a') == 5 %}C{% endif %}",
    "{% if c is lower %}L{% endif %}",
    "{% if (c | int) == 7 %}N{% endif %}",
    "{% if c.startswith(('alpha', 'beta')) %}T{% endif %}",
    "{% if c.startswith('lpha', 1) %}T{% endif %}",
    "{% if c.endswith('gamma') %}T{% endif %}",
    "{% if c is eq 'alpha beta gamma' %}Q{% endif %}",
    "{% if [c] == ['alpha beta gamma'] %}Q{% endif %}",
    "{% if c is sameas c.strip() %}{{ c.strip('a') }}{% endif %}",
    "{{ c.replace('alpha', 'omega') }}",
    "{{ c | e }}",
    "{{ c }}{{ c }}",
]


@pytest.mark.parametrize("question", CURIOUS)
def test_a_template_that_looks_at_the_text_is_never_taken_for_constant(
    tmp_path: Path, question: str
) -> None:
    template = f"{{% set c = messages[-1]['content'] %}}{question}{CHATML}"
    chat = chat_of(make_base(tmp_path, template), instruction="")
    for problem in ("alpha beta gamma", "7", "alpha", "b", "B", "a < b & c", " 7 "):
        assert chat.prompt_text(problem) == chat.rendered(problem)
