"""What decoding feeds to the model is, token by token, what training puts before a reply.

Both ends run through the whole of their own code: the documents that tokenize packs, and
the tensors that reach the model's first layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from pipeline.base.prompt_variants import Prompts
from pipeline.base.records import Problem, Trace
from pipeline.measurement.engine import Request, Sampling, decode
from pipeline.measurement.panel import Settings, requests_for, sampling_of
from pipeline.packing.encoding import encode_documents
from tests.support.evaluation import SETTINGS
from tests.support.prompts import PRINTS_FIRST_TOKEN, SOLUTION, THINKING, make_base
from tests.support.settings import make_params
from tests.support.tiny import CHATML, write_tiny_base

TEXTS = [("a", "What is 12 + 35?"), ("b", " 2 + 2 = ?\n"), ("c", "What is 7 - 1?")]
PROBLEMS = [Problem(name, text, "47", "sums", "sums:1") for name, text in TEXTS]

BARE: dict[str, Any] = {
    "name": "bare", "weight": 1, "system": None, "instruction": "", "thinking": "template",
}  # fmt: skip
CLOSED = {**BARE, "name": "closed", "instruction": "Box it.", "thinking": "empty-prefill"}
BRIEF = {**BARE, "name": "brief", "system": "Be brief."}
VARIANTS = {"prompt.variants": [CLOSED, BARE, BRIEF]}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def model(base: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(str(base)).eval()


def fed(model: Any, requests: Sequence[Request]) -> list[list[int]]:
    """Prompt ids that reach the model in the first call of every batch, padding left out."""
    seen: list[dict[str, Any]] = []

    def note(module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.append(named)

    handle = model.register_forward_pre_hook(note, with_kwargs=True)
    sampling = Sampling(
        temperature=0.0, top_p=1.0, max_new_tokens=1, seed=0, end_ids=frozenset({2}), pad_id=2
    )
    decode(model, list(requests), sampling, len(requests))
    handle.remove()
    prompts: list[list[int]] = []
    for call in seen:
        masks: torch.Tensor = call["attention_mask"]
        rows = zip(call["input_ids"], masks, strict=True)
        prompts += [ids[mask.bool()].tolist() for ids, mask in rows]
    return prompts


def trained(prompts: Prompts, problem: Problem) -> dict[str, list[int]]:
    """The prompt of a packed document under every variant: seeds are tried till all came."""
    text = problem.problem
    row = Trace(problem.id, text, "47", "Add.", SOLUTION, "s", "s:1", 9, "a", "easy", None, 1.0)
    found: dict[str, list[int]] = {}
    seed = 0
    while found.keys() != prompts.chats.keys():
        (document,) = encode_documents(prompts, [row], seed)
        found[document.variant], seed = document.prompt, seed + 1
    return found


@pytest.mark.parametrize("thinking", ["template", "on", "off", "empty-prefill"])
@pytest.mark.parametrize("template", [CHATML, THINKING, PRINTS_FIRST_TOKEN])
def test_the_model_is_fed_the_ids_that_training_saw(
    base: Path, model: Any, template: str, thinking: str
) -> None:
    (base / "chat_template.jinja").write_text(template)
    prompts = Prompts(base, make_params(**{"prompt.thinking": thinking}, **VARIANTS).prompt)
    requests = requests_for(PROBLEMS, prompts, 1)
    assert [one.variant for one in requests[::3]] == ["main", "closed", "bare", "brief"]
    for problem in PROBLEMS:
        learnt = trained(prompts, problem)
        asked = {one.variant: list(one.prompt) for one in requests if one.problem == problem.id}
        assert asked == learnt
    assert sorted(fed(model, requests)) == sorted(list(one.prompt) for one in requests)


def test_decoding_ends_where_training_and_base_say(tmp_path: Path) -> None:
    base = make_base(tmp_path, eos_token="<|endoftext|>")
    (base / "generation_config.json").write_text('{"eos_token_id": [2, 9]}')
    params = make_params(**VARIANTS)
    prompts = Prompts(base, params.prompt)
    sampling = sampling_of(params, Settings.model_validate(SETTINGS), prompts)
    # 2 ends a trained reply; 9 is the base's own, 0 its tokenizer's.
    assert sampling.end_ids == {0, 2, 9}
    assert prompts.main.generation_settings()["eos_token_id"] == [2, 0, 9]
    assert {chat.end_ids for chat in prompts.chats.values()} == {(2, 0, 9)}
