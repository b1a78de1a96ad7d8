"""What decoding feeds to the model is, token by token, what training puts before a reply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from pipeline.base.records import Problem
from pipeline.measurement.engine import Sampling, decode
from pipeline.measurement.panel import requests_for
from tests.support.prompts import PRINTS_FIRST_TOKEN, SOLUTION, THINKING, chat_of
from tests.support.tiny import CHATML, write_tiny_base

PROBLEMS = [
    Problem("a", "What is 12 + 35?", "47", "sums", "sums:1"),
    Problem("b", " 2 + 2 = ?\n", "4", "sums", "sums:2"),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def model(base: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(str(base)).eval()


def fed(model: Any, requests: list[Any]) -> dict[int, list[int]]:
    """Prompt ids that reach the model in its first call, by row, padding left out."""
    seen: list[dict[str, Any]] = []

    def note(module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.append(named)

    handle = model.register_forward_pre_hook(note, with_kwargs=True)
    sampling = Sampling(
        temperature=0.0, top_p=1.0, max_new_tokens=1, seed=0, end_ids=frozenset({2}), pad_id=2
    )
    decode(model, requests, sampling, len(requests))
    handle.remove()
    (call,) = seen
    masks: torch.Tensor = call["attention_mask"]
    return {
        row: ids[mask.bool()].tolist()
        for row, (ids, mask) in enumerate(zip(call["input_ids"], masks, strict=True))
    }


@pytest.mark.parametrize("thinking", ["template", "on", "off", "empty-prefill"])
@pytest.mark.parametrize("template", [CHATML, THINKING, PRINTS_FIRST_TOKEN])
def test_the_model_is_fed_the_ids_that_training_saw(
    base: Path, model: Any, template: str, thinking: str
) -> None:
    (base / "chat_template.jinja").write_text(template)
    chat = chat_of(base, thinking=thinking)
    trained = [chat.encode(one.problem, "Add.", SOLUTION).prompt for one in PROBLEMS]
    found = fed(model, requests_for(PROBLEMS, chat, 1))
    assert sorted(found.values()) == sorted(trained)
