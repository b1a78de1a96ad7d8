"""Prompts and replies: the same ids as transformers, the loss on the reply and its end alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, processors
from transformers import AutoTokenizer

from pipeline.base.errors import UserError
from tests.support.prompts import (
    DROPS_THINKING,
    HELPED,
    MARKED,
    PRINTS_FIRST_TOKEN,
    PROBLEM,
    SOLUTION,
    SYSTEM,
    THINKING,
    chat_of,
    conversation,
    make_base,
    messages_of,
    reference,
    spaced_base,
)
from tests.support.tiny import CHATML


@pytest.mark.parametrize("thinking", ["template", "on", "off"])
@pytest.mark.parametrize("system", [None, SYSTEM])
@pytest.mark.parametrize(
    "template", [CHATML, THINKING, MARKED, HELPED, PRINTS_FIRST_TOKEN, DROPS_THINKING]
)
def test_prompts_equal_those_of_transformers(
    tmp_path: Path, template: str, system: str | None, thinking: str
) -> None:
    base = make_base(tmp_path, template)
    chat = chat_of(base, system=system, thinking=thinking)
    text, ids = reference(base, chat)
    assert chat.prompt_text(PROBLEM) == text
    assert chat.prompt_ids(PROBLEM) == ids


@pytest.mark.parametrize("system", [None, SYSTEM])
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


@pytest.mark.parametrize(
    ("template", "thought"), [(CHATML, ""), (MARKED, ""), (MARKED, "Add."), (THINKING, "Add.")]
)
def test_prompt_and_reply_together_are_the_whole_conversation(
    tmp_path: Path, template: str, thought: str
) -> None:
    base = make_base(tmp_path, template)
    chat = chat_of(base)
    encoded = chat.encode(PROBLEM, thought, SOLUTION)
    whole = conversation(base, chat, chat.reply_text(thought, SOLUTION))
    joined = [*encoded.prompt, *encoded.reply]
    assert whole[: len(joined)] == joined
    rest = chat.tokenizer.decode(whole[len(joined) :], skip_special_tokens=False)
    assert rest.strip() == ""  # a line end after the end token, never learnt


def test_the_loss_lies_where_generation_markers_put_it(tmp_path: Path) -> None:
    base = make_base(tmp_path, MARKED)
    chat = chat_of(base)
    encoded = chat.encode(PROBLEM, "", SOLUTION)
    found = AutoTokenizer.from_pretrained(str(base)).apply_chat_template(
        [*messages_of(chat), {"role": "assistant", "content": SOLUTION}],
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    assert found["assistant_masks"] == [0] * len(encoded.prompt) + [1] * len(encoded.reply)


def test_the_first_token_comes_once_though_template_and_tokenizer_both_add_it(
    tmp_path: Path,
) -> None:
    """B05."""
    base = make_base(tmp_path, PRINTS_FIRST_TOKEN, bos_token="<|endoftext|>")
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    tokenizer.save(str(base / "tokenizer.json"))
    chat = chat_of(base)
    encoded = chat.encode(PROBLEM, "", SOLUTION)
    assert encoded.prompt == chat.prompt_ids(PROBLEM) == reference(base, chat)[1]
    assert [*encoded.prompt, *encoded.reply].count(0) == 1
    assert encoded.prompt[0] == 0


def test_the_end_is_learnt_though_its_token_pads_too(tmp_path: Path) -> None:
    """B06."""
    chat = chat_of(make_base(tmp_path, pad_token=None))
    assert chat.pad_id == chat.end_id == 2
    for solution in (SOLUTION, "\\boxed{47}"):
        assert chat.encode(PROBLEM, "", solution).reply[-1] == 2
    apart = chat_of(make_base(tmp_path / "apart", pad_token={"content": "<|endoftext|>"}))
    assert (apart.end_id, apart.pad_id) == (2, 0)


@pytest.mark.parametrize("remark", ["{{ raise_exception('no system role') }}", "{{ 1 + '' }}"])
def test_a_template_that_refuses_the_system_role_says_how_to_go_on(
    tmp_path: Path, remark: str
) -> None:
    picky = f"{{% if messages[0]['role'] == 'system' %}}{remark}{{% endif %}}"
    base = make_base(tmp_path, picky + CHATML)
    assert chat_of(base, system=None).end_id == 2
    with pytest.raises(
        UserError, match=r"refuses the prompt \(.*\)\. Set `prompt\.system` to null"
    ):
        chat_of(base, system=SYSTEM)


def test_a_template_that_leaves_out_the_system_message_is_refused(tmp_path: Path) -> None:
    deaf = CHATML.replace("in messages", "in messages if message['role'] != 'system'")
    base = make_base(tmp_path, deaf)
    assert chat_of(base, system=None).end_id == 2
    with pytest.raises(UserError, match="leaves out the system message"):
        chat_of(base, system=SYSTEM)


def test_a_template_that_does_not_open_the_reply_is_refused(tmp_path: Path) -> None:
    base = make_base(tmp_path, CHATML.replace("{% if add_generation_prompt %}", "{% if false %}"))
    with pytest.raises(UserError, match=r"have to write '<\|im_start\|>assistant\\n' itself"):
        chat_of(base)


def test_no_space_comes_between_a_line_end_and_the_reply(tmp_path: Path) -> None:
    chat = chat_of(spaced_base(tmp_path, CHATML))
    whole = conversation(tmp_path, chat, SOLUTION)
    encoded = chat.encode(PROBLEM, "", SOLUTION)
    joined = [*encoded.prompt, *encoded.reply]
    assert whole[: len(joined)] == joined
    assert chat.decode(encoded.reply) == SOLUTION
    assert chat.encode_replies(["", "a"])[0] == []


def test_where_the_template_puts_a_space_before_the_reply_it_is_kept(tmp_path: Path) -> None:
    bracketed = (
        "{% for m in messages %}{% if m.role == 'user' %}{{ '|' + m.content + '|' }}"
        "{% else %}{{ ' ' + m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
    )
    chat = chat_of(spaced_base(tmp_path, bracketed))
    encoded = chat.encode(PROBLEM, "", SOLUTION)
    assert [*encoded.prompt, *encoded.reply] == conversation(tmp_path, chat, SOLUTION)
    assert chat.decode(encoded.reply) == SOLUTION


def test_many_are_encoded_as_one_by_one(tmp_path: Path) -> None:
    chat = chat_of(make_base(tmp_path))
    texts = [f"{n} + {n}" for n in range(20)]
    assert chat.encode_prompts(texts) == [chat.prompt_ids(text) for text in texts]
    replies = [chat.encode(PROBLEM, "", text).reply[:-1] for text in texts]
    assert chat.encode_replies(texts) == replies


def test_the_hash_covers_the_template_in_use(tmp_path: Path) -> None:
    base = make_base(tmp_path / "base")
    own = tmp_path / "own.jinja"
    own.write_text(MARKED)
    hashes = [chat_of(base).tokenizer_sha256(), chat_of(base, template=str(own)).tokenizer_sha256()]
    own.write_text(MARKED + " ")
    hashes.append(chat_of(base, template=str(own)).tokenizer_sha256())
    (base / "chat_template.jinja").write_text(CHATML + " ")
    hashes.append(chat_of(base).tokenizer_sha256())
    assert len(set(hashes)) == 4
    # The base's own template has no say where another one is in use.
    assert chat_of(base, template=str(own)).tokenizer_sha256() == hashes[2]
