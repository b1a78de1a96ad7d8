"""adapter_card.md: enough to use the adapter rightly, and no more than is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipeline.summary.card import adapter_card
from pipeline.summary.evidence import Evidence, collect
from tests.support.finished_run import scores, with_stages
from tests.support.settings import make_params

PARAMS = make_params()

BARE = {
    "name": "bare", "weight": 1, "system": "Be brief.", "instruction": "",
    "thinking": "empty-prefill",
}  # fmt: skip


def test_front_matter_is_yaml_that_hubs_read(evidence: Evidence) -> None:
    _, front, _ = adapter_card(evidence, PARAMS).split("---\n", 2)
    assert YAML(typ="safe").load(front) == {
        "base_model": "Tiny-Llama",
        "library_name": "peft",
        "pipeline_tag": "text-generation",
        "tags": ["lora", "reasoning"],
    }


def test_embedded_base_is_named(evidence: Evidence) -> None:
    card = adapter_card(replace(evidence, base={**evidence.base, "kind": "embedded"}), PARAMS)
    assert "base_model: SmolLM2-135M-Instruct" in card


def test_end_token_that_the_base_does_not_stop_at_is_spelt_out(evidence: Evidence) -> None:
    card = adapter_card(evidence, PARAMS)
    assert "Every trained reply ends with `<|im_end|>` (id 2)." in card
    assert "settings name 0**" in card
    assert "set `eos_token_id`, or replies run on" in card


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ([0, 2], "The base's generation settings stop there already"),
        ([], "settings name no end token**"),
    ],
)
def test_end_tokens_that_the_base_declares(
    evidence: Evidence, declared: list[int], said: str
) -> None:
    manifest = {**evidence.manifest, "base_end_ids": declared}
    assert said in adapter_card(replace(evidence, manifest=manifest), PARAMS)


def test_recipe_data_and_files_are_those_of_the_records(evidence: Evidence) -> None:
    card = adapter_card(evidence, PARAMS)
    assert "| `learning_rate` | `0.001` |" in card
    assert "| `rslora` | `false` |" in card
    assert "| `sums.jsonl` | 1,234,567 | `0123456789ab` |" in card
    assert "(50 of them; sets and their problems: panel (64))" in card
    assert "| trained elements | 4,884,480 in bfloat16 |" in card
    assert "| rank, scale | 16, 2 |" in card
    assert "Kept: 2 checks passed." in card
    assert "**30.0 % → 70.0 %" in card


@pytest.mark.parametrize(("scale", "said"), [([0.5, 2.0], "16, 0.5 to 2"), (None, "16, none")])
def test_scales_of_patterns_and_of_methods_without_one(
    scale: list[float] | None, said: str, evidence: Evidence
) -> None:
    export = {**(evidence.export or {}), "scale": scale}
    assert f"| rank, scale | {said} |" in adapter_card(replace(evidence, export=export), PARAMS)


def test_prompt_is_told_as_it_was_in_training(evidence: Evidence) -> None:
    said = make_params(None, **{"prompt.system": "Be brief.", "prompt.thinking": "off"})
    card = adapter_card(evidence, said)
    assert "| system message | `Be brief.` |" in card
    assert "| thinking | `enable_thinking`: off |" in card
    assert "| system message | none is sent |" in adapter_card(evidence, PARAMS)


def test_every_prompt_is_told_and_measured(evidence: Evidence) -> None:
    params = make_params(None, **{"prompt.variants": [BARE]})
    bare = scores("x", 2, [0.057, 0.51])
    measured = {**evidence.evaluate, "variants": {"bare": bare}}
    card = adapter_card(replace(evidence, evaluate=measured), params)
    assert "| prompt | system message | instruction | thinking |" in card
    assert "| `bare` | `Be brief.` | none | an empty, closed block before every reply |" in card
    assert "### Under each prompt" in card
    assert "| `bare` | 0.0 % | not run | 20.0 % (5.7–51.0 %) |" in card


def test_stages_of_a_curriculum_are_in_the_card(evidence: Evidence) -> None:
    whole = with_stages(evidence)
    recipe = {**whole.train["recipe"], "plan.stages": [{"sequence_tokens": 256}]}
    card = adapter_card(replace(whole, train={**whole.train, "recipe": recipe}), PARAMS)
    assert "## Stages" in card
    assert "plan.stages" not in card
    assert "## Stages" not in adapter_card(evidence, PARAMS)


def test_limits_follow_the_evaluation(evidence: Evidence) -> None:
    card = adapter_card(evidence, PARAMS)
    assert "Measured on 10 problems of one panel" in card
    assert "20.0 % had no box" in card
    unmeasured = {**evidence.evaluate, "problems": 0, "pass_at_1": None}
    assert "Its accuracy was not measured." in adapter_card(
        replace(evidence, evaluate=unmeasured), PARAMS
    )


def test_card_of_a_cut_run_invents_nothing(tmp_path: Path) -> None:
    card = adapter_card(collect(tmp_path, partial=True), PARAMS)
    assert "Training did not end" in card
    assert "the data were not tokenised" in card
    assert "Not checked." in card
    assert "None" not in card
