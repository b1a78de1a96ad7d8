"""evaluate on a tiny base with an adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from pipeline import baseline, evaluate
from pipeline.base.artifacts import read_json
from pipeline.base.loading import load_base
from pipeline.base.records import Sample, read_rows
from tests.support.evaluation import write_evaluation_inputs
from tests.support.settings import make_params


def write_adapter(base: Path, folder: Path, spread: float) -> None:
    """A LoRA adapter whose B has this standard deviation; 0 leaves the base as it is."""
    torch.manual_seed(0)
    model = load_base(base, dtype="float32", device="cpu")
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "up_proj"]))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=spread)
    adapted.save_pretrained(str(folder), safe_serialization=True)


def replies(folder: Path) -> list[str]:
    return [sample.reply for sample in read_rows(Sample, folder / "samples.jsonl")]


@pytest.mark.parametrize(("spread", "same"), [(0.0, True), (0.5, False)])
def test_the_adapter_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread: float, same: bool
) -> None:
    base = write_evaluation_inputs(tmp_path)
    write_adapter(base, tmp_path / "work/train/adapter", spread)
    monkeypatch.chdir(tmp_path)
    params: Any = make_params()
    baseline.main(params)
    evaluate.main(params)
    scores = read_json(tmp_path / "work/evaluate/scores.json")
    assert scores["label"] == "adapter"
    assert scores["problems"] == 5
    ours, theirs = replies(tmp_path / "work/evaluate"), replies(tmp_path / "work/baseline")
    assert (ours == theirs) is same
    assert scores.keys() == read_json(tmp_path / "work/baseline/scores.json").keys()


def test_a_bfloat16_base_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = write_evaluation_inputs(tmp_path, dtype="bfloat16")
    write_adapter(base, tmp_path / "work/train/adapter", 0.5)
    monkeypatch.chdir(tmp_path)
    evaluate.main(make_params())
    scores = read_json(tmp_path / "work/evaluate/scores.json")
    assert (scores["problems"], scores["sampling"]["dtype"]) == (5, "bfloat16")
