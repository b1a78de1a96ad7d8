"""The generation config of the card: complete, and no figure that nobody measured."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from transformers import GenerationConfig

from pipeline.summary.decoding import decoding_section, generation_settings
from pipeline.summary.evidence import Evidence


def block(lines: list[str]) -> dict[str, Any]:
    """The settings that a user copies from the page."""
    start = lines.index("```json")
    found: dict[str, Any] = json.loads("\n".join(lines[start + 1 : lines.index("```", start)]))
    return found


def test_all_that_decides_a_reply_is_there(evidence: Evidence) -> None:
    assert block(decoding_section(evidence)) == {
        "eos_token_id": [2, 0], "pad_token_id": 2, "do_sample": True, "temperature": 0.7,
        "top_p": 0.95, "top_k": 0, "max_new_tokens": 128,
    }  # fmt: skip


def test_a_setting_has_a_line(evidence: Evidence) -> None:
    assert '  "eos_token_id": [2, 0],' in decoding_section(evidence)


def test_transformers_takes_it_and_keeps_every_token(evidence: Evidence) -> None:
    config = GenerationConfig(**block(decoding_section(evidence)))
    config.validate(strict=True)
    assert GenerationConfig().top_k  # what would cut the tokens if nothing were said
    assert not config.top_k


def test_greedy_decoding_has_no_temperature(evidence: Evidence) -> None:
    sampling = {**evidence.evaluate["sampling"], "temperature": 0.0}
    found = generation_settings(evidence.manifest, {**evidence.evaluate, "sampling": sampling})
    assert found["do_sample"] is False
    assert not {"temperature", "top_p", "top_k"} & found.keys()


def test_what_was_not_evaluated_has_end_tokens_alone(evidence: Evidence) -> None:
    nothing = replace(evidence, evaluate=None, baseline=None)
    assert block(decoding_section(nothing)) == {"eos_token_id": [2, 0], "pad_token_id": 2}
    base = replace(evidence, evaluate=None)
    assert block(decoding_section(base))["temperature"] == 0.7


@pytest.mark.parametrize("manifest", [None, {"end_id": 2, "end_text": "e", "base_end_ids": [2]}])
def test_an_older_or_no_record_has_no_block(evidence: Evidence, manifest: Any) -> None:
    lines = decoding_section(replace(evidence, manifest=manifest))
    assert "```json" not in lines
    assert len(lines) >= 3
