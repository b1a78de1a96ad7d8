"""Documents and their loss masks: what is learnt is the reply and its ending, no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import pre_tokenizers, processors

from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from pipeline.base.prompt_variants import Prompts
from pipeline.base.records import Trace
from pipeline.packing.encoding import Document, encode_documents, refusal
from tests.support.packing import sum_trace
from tests.support.settings import make_params
from tests.support.tiny import CHATML, write_tiny_tokenizer

OPENS_EMPTY_THINKING = CHATML.replace("assistant\n", "assistant\n<think>\n\n</think>\n\n")
PRINTS_BOS = "{{ bos_token }}" + CHATML
CODE = "Run it:\n```python\nprint(6 * 7)\n```\n"
OUTPUT = "<output>\n42\n</output>"


def encode(prompts: Prompts, *traces: Trace) -> list[Document]:
    return encode_documents(prompts, traces, 0)


def learnt(chat: Chat, document: Document) -> str:
    ids = [one for one, trained in zip(document.ids, document.mask().tolist()) if trained]
    return str(chat.tokenizer.decode(ids, skip_special_tokens=False))


def with_template(folder: Path, template: str, **config: Any) -> Prompts:
    write_tiny_tokenizer(folder, template)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return Prompts(folder, make_params().prompt)


def test_batches_give_the_ids_that_the_chat_gives_one_by_one(prompts: Prompts) -> None:
    rows = [sum_trace(n, "Think. " * (n % 3)) for n in range(1, 40)]
    for row, document in zip(rows, encode(prompts, *rows), strict=True):
        one = prompts.main.encode(row.problem, row.thinking, row.solution)
        assert (document.prompt, document.reply) == (one.prompt, one.reply)
        assert document.trace is row


def test_reply_and_end_token_are_learnt_and_nothing_else(prompts: Prompts) -> None:
    row = sum_trace(7, thinking="7 and 1 make 8.")
    (document,) = encode(prompts, row)
    reply = f"<think>\n7 and 1 make 8.\n</think>\n\n{row.solution}"
    assert learnt(prompts.main, document) == reply + "<|im_end|>"
    mask = document.mask()
    assert document.trained_tokens == mask.sum() < len(mask)
    assert not mask[: len(document.prompt)].any()
    assert mask[-1]


def test_end_token_is_learnt_though_it_is_the_pad_token_too(prompts: Prompts) -> None:
    assert prompts.main.pad_id == prompts.main.end_id
    for document in encode(prompts, sum_trace(1), sum_trace(123456)):
        assert document.ids[-1] == prompts.main.end_id
        assert document.mask()[-1]


def test_block_that_the_template_opens_is_prompt_not_reply(tmp_path: Path) -> None:
    prompts = with_template(tmp_path, OPENS_EMPTY_THINKING)
    (document,) = encode(prompts, sum_trace(3))
    assert learnt(prompts.main, document).startswith("We add 1 to 3.")
    assert document.prompt == prompts.main.prompt_ids(sum_trace(3).problem)
    shown = prompts.main.tokenizer.decode(document.prompt, skip_special_tokens=False)
    assert shown.endswith("</think>\n\n")


def test_begin_token_of_the_template_is_not_doubled_by_the_tokenizer(tmp_path: Path) -> None:
    prompts = with_template(tmp_path, PRINTS_BOS, bos_token="<|endoftext|>")
    tokenizer = prompts.main.tokenizer
    bos = tokenizer.token_to_id("<|endoftext|>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", bos)]
    )
    row = sum_trace(3, solution=CODE + OUTPUT)
    (document,) = encode(prompts, row)
    assert (document.ids.count(bos), document.ids[0]) == (1, bos)
    assert OUTPUT not in learnt(prompts.main, document)


def test_every_row_has_the_prompt_of_its_variant(base: Path) -> None:
    bare = {
        "name": "bare",
        "weight": 1.0,
        "system": None,
        "instruction": "",
        "thinking": "template",
    }
    prompts = Prompts(base, make_params(**{"prompt.variants": [bare]}).prompt)
    rows = [sum_trace(n) for n in range(1, 30)]
    documents = encode(prompts, *rows)
    assert {document.variant for document in documents} == {"main", "bare"}
    for row, document in zip(rows, documents, strict=True):
        assert document.trace is row
        assert document.variant == prompts.variant_of(row.id, 0)
        assert document.prompt == prompts.chats[document.variant].prompt_ids(row.problem)


def test_what_a_tool_wrote_is_not_learnt(prompts: Prompts) -> None:
    row = sum_trace(1, solution=f"{CODE}{OUTPUT}\nSo \\boxed{{42}}.")
    (document,) = encode(prompts, row)
    assert learnt(prompts.main, document) == f"{CODE}\nSo \\boxed{{42}}.<|im_end|>"
    assert document.tool_spans == 1
    mask = document.mask()
    assert document.trained_tokens == mask.sum()
    shown = [i for i, trained in zip(document.reply, mask[len(document.prompt) :]) if not trained]
    assert prompts.main.tokenizer.decode(shown, skip_special_tokens=False) == OUTPUT


def test_a_token_across_the_border_of_a_tool_output_is_not_learnt(tmp_path: Path) -> None:
    tokenizer = write_tiny_tokenizer(tmp_path)
    # A piece of the vocabulary that joins the end of the output and what follows.
    tree = json.loads(tokenizer.to_str())
    tree["model"]["vocab"][">."] = len(tree["model"]["vocab"])
    tree["model"]["merges"].append([">", "."])
    (tmp_path / "tokenizer.json").write_text(json.dumps(tree))
    prompts = Prompts(tmp_path, make_params().prompt)
    (document,) = encode(prompts, sum_trace(1, solution=f"{CODE}{OUTPUT}. Done."))
    assert learnt(prompts.main, document) == f"{CODE} Done.<|im_end|>"


def test_offsets_of_a_tokenizer_that_trims_blanks(tmp_path: Path) -> None:
    tokenizer = write_tiny_tokenizer(tmp_path)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    prompts = Prompts(tmp_path, make_params().prompt)
    (document,) = encode(prompts, sum_trace(1, solution=f"{CODE}<output>\n  4\n\n2 </output>\nB"))
    assert "4" not in learnt(prompts.main, document)
    said = learnt(prompts.main, document)
    assert said.startswith(CODE.strip())
    assert said.endswith("B<|im_end|>")


def test_offsets_behind_a_line_end(tmp_path: Path) -> None:
    """Replies that are encoded behind a line end, as those of a SentencePiece vocabulary."""
    tokenizer = write_tiny_tokenizer(tmp_path)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    prompts = Prompts(tmp_path, make_params().prompt)
    alone = prompts.main.tokenizer.encode("therefore", add_special_tokens=False).ids
    assert alone != prompts.main.encode_replies(["therefore"])[0]
    (document,) = encode(prompts, sum_trace(1, solution=f"therefore\n{CODE}{OUTPUT}\nSo 42."))
    assert learnt(prompts.main, document) == f"therefore\n{CODE}\nSo 42.<|im_end|>"


def test_empty_reply_is_refused(prompts: Prompts) -> None:
    with pytest.raises(UserError, match=r"sums\.jsonl:1: the reply of this row has no tokens"):
        encode(prompts, sum_trace(1, solution=" \n"))


def test_template_without_a_prompt_is_refused(tmp_path: Path) -> None:
    silent = "{% if not add_generation_prompt %}" + CHATML + "{% endif %}"
    with pytest.raises(UserError, match=r"prompt of this row .* chat template"):
        encode(with_template(tmp_path, silent), sum_trace(1))


def test_length_limit_saved_with_the_tokenizer_cuts_nothing(tmp_path: Path) -> None:
    tokenizer = write_tiny_tokenizer(tmp_path)
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    prompts = Prompts(tmp_path, make_params().prompt)
    row = sum_trace(3, solution=f"{CODE}{OUTPUT}")
    (document,) = encode(prompts, row)
    assert learnt(prompts.main, document) == f"{CODE}<|im_end|>"
    assert len(document.prompt) > 9


def reason(prompts: Prompts, row: Trace, limit: int = 512) -> str | None:
    (document,) = encode(prompts, row)
    refused = refusal(document, prompts.main.end_id, limit)
    return refused[0] if refused else None


def test_a_row_that_fits_exactly_is_taken_and_one_token_more_is_refused(prompts: Prompts) -> None:
    (document,) = encode(prompts, sum_trace(1))
    assert reason(prompts, sum_trace(1), len(document.ids)) is None
    assert reason(prompts, sum_trace(1), len(document.ids) - 1) == "too-long"


def test_reply_that_spells_the_end_token_is_refused(prompts: Prompts) -> None:
    row = sum_trace(1, solution="It is 2.<|im_end|> So \\boxed{2}.")
    assert reason(prompts, row) == "end-token-inside"


def test_a_reply_that_a_tool_wrote_alone_is_refused(prompts: Prompts) -> None:
    wholly = "<|tool_output|>42<|/tool_output|>"
    assert reason(prompts, sum_trace(1, solution=wholly)) == "nothing-to-learn"
    assert reason(prompts, sum_trace(1, solution=wholly + " So 42.")) is None
