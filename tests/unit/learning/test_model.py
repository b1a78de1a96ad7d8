"""What is trainable, in which type, and that it survives being written and read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel

from pipeline.base.adapter_format import CONFIG_FILE, LORA_CONFIG_KEYS
from pipeline.base.errors import UserError
from pipeline.base.loading import load_base
from pipeline.learning.model import build, read_adapter, write_adapter
from tests.support.packed import training_plan
from tests.support.settings import make_params


def test_only_fp32_adapter_weights_are_trainable(tiny_base: Path) -> None:
    model = build(tiny_base, make_params().train, training_plan(base_dtype="bfloat16"), "cpu")
    trainable = {n: p for n, p in model.causal.named_parameters() if p.requires_grad}
    assert trainable
    assert all("lora_" in name for name in trainable)
    assert {p.dtype for p in trainable.values()} == {torch.float32}
    frozen = {p.dtype for n, p in model.causal.named_parameters() if not p.requires_grad}
    assert frozen == {torch.bfloat16}


def test_all_linear_adapts_every_projection_but_the_head(tiny_base: Path) -> None:
    model = build(tiny_base, make_params().train, training_plan(), "cpu")
    names = {name.split(".lora_")[0].rsplit(".", 1)[-1] for name in model.masters}
    assert names == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def test_unknown_target_is_refused_with_the_choices(tiny_base: Path) -> None:
    params = make_params(**{"train.target_modules": ["q_proj", "query_key_value"]}).train
    with pytest.raises(UserError, match=r"query_key_value.*q_proj"):
        build(tiny_base, params, training_plan(), "cpu")


def test_same_seed_same_start_and_another_seed_another(tiny_base: Path) -> None:
    def first(seed: int) -> torch.Tensor:
        params = make_params(**{"train.seed": seed}).train
        model = build(tiny_base, params, training_plan(), "cpu")
        return next(iter(model.masters.values())).detach()

    assert torch.equal(first(0), first(0))
    assert not torch.equal(first(0), first(1))


def test_written_adapter_loads_in_peft_with_the_same_logits(
    tiny_base: Path, tmp_path: Path
) -> None:
    params = make_params().train
    model = build(tiny_base, params, training_plan(), "cpu")
    with torch.no_grad():
        for parameter in model.masters.values():
            parameter.add_(0.02)
    write_adapter(tmp_path, model)
    config = json.loads((tmp_path / CONFIG_FILE).read_text())
    assert set(config) <= LORA_CONFIG_KEYS

    plain = load_base(tiny_base, dtype="float32", device="cpu")
    loaded = PeftModel.from_pretrained(plain, str(tmp_path)).eval()
    tokens = torch.arange(3, 20)[None]
    with torch.no_grad():
        expected = model.causal.eval()(
            input_ids=tokens, use_cache=False, document_lengths=(tokens.shape[1],)
        ).logits
        torch.testing.assert_close(loaded(input_ids=tokens).logits, expected, atol=1e-4, rtol=1e-4)


def test_reading_back_restores_every_master(tiny_base: Path, tmp_path: Path) -> None:
    params = make_params().train
    source = build(tiny_base, params, training_plan(), "cpu")
    with torch.no_grad():
        for number, parameter in enumerate(source.masters.values()):
            parameter.add_(number + 1.0)
    write_adapter(tmp_path, source)
    target = build(tiny_base, params, training_plan(), "cpu")
    read_adapter(tmp_path, target)
    for name, parameter in target.masters.items():
        assert torch.equal(parameter, source.masters[name])


def test_an_adapter_of_other_modules_is_refused(tiny_base: Path, tmp_path: Path) -> None:
    params = make_params(**{"train.target_modules": ["q_proj"]}).train
    write_adapter(tmp_path, build(tiny_base, params, training_plan(), "cpu"))
    other = build(tiny_base, make_params().train, training_plan(), "cpu")
    with pytest.raises(UserError, match="does not belong"):
        read_adapter(tmp_path, other)
