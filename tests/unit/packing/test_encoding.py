"""Documents and their loss masks: what is learnt is the reply and its ending, no more."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import normalizers, processors

from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from pipeline.base.progress import Progress
from pipeline.base.records import Trace
from pipeline.packing.encoding import (
    Document,
    Encoding,
    describe_documents,
    describe_tokenizer,
    encode_traces,
    prove_mask,
    trained_mask,
)
from tests.support.settings import make_params
from tests.support.tiny import CHATML, write_tiny_tokenizer
from tests.support.traces import make_trace

PROMPT = make_params().prompt

OPENS_EMPTY_THINKING = CHATML.replace("assistant\n", "assistant\n<think>\n\n</think>\n\n")
PRINTS_BOS = "{{ bos_token }}" + CHATML


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    write_tiny_tokenizer(folder)
    return folder


@pytest.fixture
def chat(base: Path) -> Chat:
    return Chat(base, PROMPT)


def trace(number: int = 1, thinking: str = "", solution: str | None = None) -> Trace:
    problem = f"What is {number} + 1?"
    if solution is None:
        solution = f"We add 1 to {number}.\n\nThe answer is \\boxed{{{number + 1}}}."
    where = f"sums.jsonl:{number}"
    return make_trace(
        problem, str(number + 1), thinking=thinking, solution=solution, source="sums", origin=where
    )


def encode(chat: Chat, traces: list[Trace], limit: int = 512) -> Encoding:
    return encode_traces(chat, traces, limit, Progress("t", "rows", None, stream=io.StringIO()))


def learnt_text(chat: Chat, document: Document) -> str:
    ids = document.ids[trained_mask(document)].tolist()
    return str(chat.tokenizer.decode(ids, skip_special_tokens=False))


def with_template(folder: Path, template: str, **config: Any) -> Chat:
    write_tiny_tokenizer(folder, template)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return Chat(folder, PROMPT)


def test_batches_give_the_ids_that_the_chat_gives_one_by_one(chat: Chat) -> None:
    rows = [trace(n, "Think. " * (n % 3)) for n in range(1, 301)]  # more than one batch
    for row, document in zip(rows, encode(chat, rows).documents, strict=True):
        one = chat.encode(row.problem, row.thinking, row.solution)
        assert document.ids.tolist() == one.prompt + one.reply
        assert document.prompt_tokens == len(one.prompt)
        assert document.ids.dtype == np.int32


def test_reply_and_end_token_are_learnt_and_nothing_else(chat: Chat) -> None:
    row = trace(7, thinking="7 and 1 make 8.")
    (document,) = encode(chat, [row]).documents
    reply = f"<think>\n7 and 1 make 8.\n</think>\n\n{row.solution}"
    assert learnt_text(chat, document) == reply + "<|im_end|>"
    mask = trained_mask(document)
    assert 0 < mask.sum() < len(mask)
    assert not mask[0]
    assert mask[-1]


def test_end_token_is_learnt_though_it_is_the_pad_token_too(chat: Chat) -> None:
    assert chat.pad_id == chat.end_id
    for document in encode(chat, [trace(1), trace(123456)]).documents:
        assert document.ids[-1] == chat.end_id
        assert trained_mask(document)[-1]


def test_block_that_the_template_opens_is_prompt_not_reply(tmp_path: Path) -> None:
    chat = with_template(tmp_path, OPENS_EMPTY_THINKING)
    (document,) = encode(chat, [trace(3)]).documents
    assert learnt_text(chat, document).startswith("We add 1 to 3.")
    prompt = document.ids[: document.prompt_tokens].tolist()
    assert prompt == chat.prompt_ids(trace(3).problem)  # what an evaluation starts from
    assert chat.tokenizer.decode(prompt, skip_special_tokens=False).endswith("</think>\n\n")


def test_begin_token_of_the_template_is_not_doubled_by_the_tokenizer(tmp_path: Path) -> None:
    chat = with_template(tmp_path, PRINTS_BOS, bos_token="<|endoftext|>")
    bos = chat.tokenizer.token_to_id("<|endoftext|>")
    chat.tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", bos)]
    )
    (document,) = encode(chat, [trace(3)]).documents
    assert document.ids.tolist().count(bos) == 1
    assert document.ids[0] == bos
    assert document.ids[:8].tolist() == chat.prompt_ids(trace(3).problem)[:8]


def test_length_limit_saved_with_the_tokenizer_cuts_nothing(tmp_path: Path) -> None:
    tokenizer = write_tiny_tokenizer(tmp_path)
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    chat = Chat(tmp_path, PROMPT)
    (document,) = encode(chat, [trace(3)]).documents
    assert learnt_text(chat, document) == trace(3).solution + "<|im_end|>"


def test_rows_longer_than_a_sequence_are_dropped_whole_and_counted(chat: Chat) -> None:
    rows = [trace(1), trace(2), trace(3, solution="again and " * 40 + "\\boxed{4}")]
    sizes = [len(document.ids) for document in encode(chat, rows).documents]
    encoding = encode(chat, rows, limit=max(sizes[:2]))
    assert [one.trace for one in encoding.documents] == rows[:2]
    assert encoding.dropped == {"too-long": 1}
    assert encoding.dropped_tokens == sizes[2]
    counts = describe_documents(encoding)
    assert counts["tokens"] + counts["dropped_tokens"] == sum(sizes)
    assert counts["documents"] == 2
    assert 0 < counts["trained_tokens"] < counts["tokens"]


def test_row_of_exactly_the_limit_stays(chat: Chat) -> None:
    size = len(encode(chat, [trace(1)]).documents[0].ids)
    assert encode(chat, [trace(1)], limit=size).dropped == {}


def test_sequences_too_short_for_most_rows_stop_the_run(chat: Chat) -> None:
    with pytest.raises(UserError, match=r"2 of 2 rows .* 16 tokens .*plan.sequence_tokens"):
        encode(chat, [trace(1), trace(2)], limit=16)


def test_no_rows_at_all_stop_the_run(chat: Chat) -> None:
    with pytest.raises(UserError, match="0 rows are left"):
        encode(chat, [])


def test_reply_that_spells_the_end_token_is_dropped(chat: Chat) -> None:
    bad = trace(1, solution="It is 2.<|im_end|> So \\boxed{2}.")
    assert encode(chat, [bad, trace(2)]).dropped == {"end-token-inside": 1}


def test_empty_reply_is_refused(chat: Chat) -> None:
    with pytest.raises(UserError, match=r"sums\.jsonl:1: the reply of this row has no tokens"):
        encode(chat, [trace(1, solution=" \n")])


def test_template_without_a_prompt_is_refused(tmp_path: Path) -> None:
    silent = "{% if not add_generation_prompt %}" + CHATML + "{% endif %}"
    chat = with_template(tmp_path, silent)
    with pytest.raises(UserError, match=r"prompt of this row .* chat template"):
        encode(chat, [trace(1)])


@pytest.fixture
def stored(chat: Chat) -> tuple[Trace, Any, Any]:
    (document,) = encode(chat, [trace(9, thinking="One more.")]).documents
    return document.trace, document.ids, trained_mask(document)


def test_proof_accepts_a_right_mask(chat: Chat, stored: tuple[Trace, Any, Any]) -> None:
    prove_mask(chat, *stored)


def shifted(mask: Any, by: int) -> Any:
    return np.arange(len(mask)) >= int(mask.argmax()) + by


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("one token of the prompt", lambda mask: shifted(mask, -1)),
        ("first token of the reply left out", lambda mask: shifted(mask, 1)),
        ("everything", np.ones_like),
        ("nothing", np.zeros_like),
        ("end token left out", lambda mask: mask & (np.arange(len(mask)) < len(mask) - 1)),
    ],
)
def test_proof_refuses_a_wrong_mask(
    name: str, spoil: Any, chat: Chat, stored: tuple[Trace, Any, Any]
) -> None:
    row, ids, mask = stored
    with pytest.raises(UserError, match=r"sums\.jsonl:9"):
        prove_mask(chat, row, ids, spoil(mask))


def test_proof_refuses_ids_of_another_reply(chat: Chat, stored: tuple[Trace, Any, Any]) -> None:
    with pytest.raises(UserError, match="the trained tokens read"):
        prove_mask(chat, trace(10), *stored[1:])


def test_proof_allows_unicode_normalisation_only(tmp_path: Path) -> None:
    tokenizer = write_tiny_tokenizer(tmp_path)
    row = trace(1, solution="Cafe\u0301: \\boxed{2}")
    for normaliser, fine in ((normalizers.NFC(), True), (normalizers.Lowercase(), False)):
        tokenizer.normalizer = normaliser
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        chat = Chat(tmp_path, PROMPT)
        (document,) = encode(chat, [row]).documents
        if fine:
            prove_mask(chat, row, document.ids, trained_mask(document))
        else:
            with pytest.raises(UserError, match="alters text"):
                prove_mask(chat, row, document.ids, trained_mask(document))


def test_tokenizer_hash_changes_with_one_character_of_the_template(tmp_path: Path) -> None:
    before = describe_tokenizer(with_template(tmp_path, CHATML))
    assert describe_tokenizer(with_template(tmp_path, CHATML)) == before
    after = describe_tokenizer(with_template(tmp_path, CHATML + " "))
    assert after["tokenizer_sha256"] != before["tokenizer_sha256"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, []),
        ({"config.json": {"eos_token_id": 2}}, [2]),
        ({"config.json": {"eos_token_id": 2}, "generation_config.json": {}}, [2]),
        (
            {
                "config.json": {"eos_token_id": 2},
                "generation_config.json": {"eos_token_id": [0, 2]},
            },
            [0, 2],
        ),
    ],
)
def test_end_tokens_that_the_base_declares(
    tmp_path: Path, files: dict[str, Any], expected: list[int]
) -> None:
    chat = with_template(tmp_path, CHATML)
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    facts = describe_tokenizer(chat)
    assert facts["base_end_ids"] == expected
    assert (facts["end_text"], facts["end_id"], facts["pad_id"]) == ("<|im_end|>", 2, 2)
