"""The proof: passes what is right, and finds whatever else a mask could be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import normalizers

from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from pipeline.base.prompt_variants import Prompts
from pipeline.base.records import Trace
from pipeline.packing.encoding import encode_documents
from pipeline.packing.proof import prove_document
from tests.support.packing import sum_trace
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_tokenizer

PLAIN = sum_trace(9, thinking="One more.")
CODE = "Run.\n```python\nprint(42)\n```\n"
TOOL = sum_trace(9, solution=f"{CODE}<output>\n42\n</output>\nSo it is 42.")


def stored(prompts: Prompts, row: Trace) -> tuple[Any, Any]:
    (document,) = encode_documents(prompts, [row], 0)
    return np.array(document.ids, dtype=np.int32), document.mask()


def prove(chat: Chat, row: Trace, ids: Any, mask: Any) -> None:
    prove_document(chat, row, chat.prompt_ids(row.problem), ids, mask)


@pytest.mark.parametrize("row", [PLAIN, TOOL], ids=["plain", "tool"])
def test_accepts_what_the_stage_makes(prompts: Prompts, row: Trace) -> None:
    prove(prompts.main, row, *stored(prompts, row))


def shifted(mask: Any, by: int) -> Any:
    return np.arange(len(mask)) >= int(mask.argmax()) + by


@pytest.mark.parametrize(
    ("said", "spoil"),
    [
        ("does not begin with its prompt", lambda mask: shifted(mask, -1)),
        ("is trained|is not trained|tokens read", lambda mask: shifted(mask, 1)),
        ("leave the first token", np.ones_like),
        ("does not begin with its prompt", lambda mask: np.arange(len(mask)) > 0),
        ("train some other", np.zeros_like),
        ("must end with", lambda mask: mask & (np.arange(len(mask)) < len(mask) - 1)),
        ("is not trained|tokens read", lambda mask: np.arange(len(mask)) == len(mask) - 1),
        ("is not trained|tokens read", lambda mask: mask & (np.arange(len(mask)) != len(mask) - 4)),
    ],
)
@pytest.mark.parametrize("row", [PLAIN, TOOL], ids=["plain", "tool"])
def test_refuses_a_wrong_mask(prompts: Prompts, row: Trace, said: str, spoil: Any) -> None:
    ids, mask = stored(prompts, row)
    with pytest.raises(UserError, match=rf"sums\.jsonl:9: .*({said})"):
        prove(prompts.main, row, ids, spoil(mask))


def test_refuses_a_tool_output_that_is_trained(prompts: Prompts) -> None:
    ids, mask = stored(prompts, TOOL)
    gap = np.flatnonzero(~mask[int(mask.argmax()) :]) + int(mask.argmax())
    for wrong in (gap, gap[:1], gap[-1:], gap[5:6]):
        spoiled = mask.copy()
        spoiled[wrong] = True
        with pytest.raises(UserError, match="what a tool wrote is trained"):
            prove(prompts.main, TOOL, ids, spoiled)


@pytest.mark.parametrize("beside", [-1, 1])
def test_refuses_a_gap_that_is_too_wide(prompts: Prompts, beside: int) -> None:
    ids, mask = stored(prompts, TOOL)
    gap = np.flatnonzero(~mask[int(mask.argmax()) :]) + int(mask.argmax())
    mask[gap[0] - 1 if beside < 0 else gap[-1] + 1] = False
    with pytest.raises(UserError, match="the model wrote this and it is not trained"):
        prove(prompts.main, TOOL, ids, mask)


def test_refuses_ids_of_another_reply(prompts: Prompts) -> None:
    other = sum_trace(9, solution="It is \\boxed{11}.")
    with pytest.raises(UserError, match="the reply reads"):
        prove(prompts.main, other, *stored(prompts, PLAIN))


def test_refuses_another_prompt(prompts: Prompts) -> None:
    ids, mask = stored(prompts, PLAIN)
    ids[2] += 1
    with pytest.raises(UserError, match="does not begin with its prompt"):
        prove(prompts.main, PLAIN, ids, mask)


def test_allows_a_token_across_the_border_of_a_tool_output(tmp_path: Path) -> None:
    tokenizer = write_tiny_tokenizer(tmp_path)
    tokenizer.add_tokens(["\n<out", ">\nSo"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    prompts = Prompts(tmp_path, make_params().prompt)
    ids, mask = stored(prompts, TOOL)
    assert mask[int(mask.argmax()) :].argmin() > 0
    prove(prompts.main, TOOL, ids, mask)


def test_characters_of_several_tokens_beside_a_tool_output(prompts: Prompts) -> None:
    row = sum_trace(9, solution="π\n```\nx\n```\n<output>∑\n漢</output>漢字: 42 ∎")
    prove(prompts.main, row, *stored(prompts, row))


def test_allows_unicode_normalisation_only(tmp_path: Path) -> None:
    tokenizer = write_tiny_tokenizer(tmp_path)
    row = sum_trace(1, solution="Cafe\u0301: \\boxed{2}")
    for normaliser, fine in ((normalizers.NFC(), True), (normalizers.Lowercase(), False)):
        tokenizer.normalizer = normaliser
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        prompts = Prompts(tmp_path, make_params().prompt)
        ids, mask = stored(prompts, row)
        if fine:
            prove(prompts.main, row, ids, mask)
        else:
            with pytest.raises(UserError, match="alters text"):
                prove(prompts.main, row, ids, mask)
