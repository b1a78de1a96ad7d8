"""Adapters of every method on a frozen base, by PEFT's own modules.

`model.build` calls `build_peft`. The config that PEFT gets is the one that is
written beside the weights (base/adapter_format.py), so that what is trained is what
PEFT 0.9.0 makes of the file, also where a newer PEFT is installed.
"""

from __future__ import annotations

from typing import Any

import peft
import torch

from pipeline.base.adapter_format import PEFT_TYPES, adapter_config
from pipeline.base.params import TrainParams

CONFIGS: dict[str, Any] = {
    "LORA": peft.LoraConfig,
    "ADALORA": peft.AdaLoraConfig,
    "IA3": peft.IA3Config,
    "LOHA": peft.LoHaConfig,
    "LOKR": peft.LoKrConfig,
    "OFT": peft.OFTConfig,
}
OF_THE_FILE = ("peft_type", "auto_mapping", "base_model_name_or_path", "revision", "inference_mode")
"""Keys that PEFT sets itself while it trains."""
MAGNITUDE = ".lora_magnitude_vector"


def config_of(params: TrainParams, base_path: str, suffixes: list[str]) -> dict[str, Any]:
    """adapter_config.json of this recipe.

    Args:
        base_path: what the file names as the base.
        suffixes: last name parts of the adapted layers.
    """
    return adapter_config(
        params.method,
        base_path=base_path,
        rank=params.rank,
        alpha=params.alpha,
        dropout=params.dropout,
        rslora=params.rslora,
        target_modules=suffixes,
        rank_pattern=params.rank_pattern,
        alpha_pattern=params.alpha_pattern,
    )


def build_peft(model: Any, params: TrainParams, suffixes: list[str]) -> Any:
    """The base with a new adapter: initialised from torch's seed, masters in fp32.

    Args:
        model: the frozen base; changed in place.
        suffixes: last name parts of the layers to adapt.
    """
    written = config_of(params, "", suffixes)
    settings = {key: value for key, value in written.items() if key not in OF_THE_FILE}
    adapted = peft.get_peft_model(model, CONFIGS[PEFT_TYPES[params.method]](**settings))
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            # fp16 or bf16 masters lose updates smaller than their last bit.
            parameter.data = parameter.data.float()
    if params.method == "dora":
        _measure_magnitudes(adapted)
    return adapted


def _measure_magnitudes(model: torch.nn.Module) -> None:
    """DoRA's magnitudes from the weights, in fp32.

    PEFT measures them in the type of the base; rounded to 16 bits they would scale
    every row by up to 0.4 % before the first step.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if MAGNITUDE in name:
                layer: Any = model.get_submodule(name.partition(MAGNITUDE)[0])
                weight = layer.get_base_layer().weight
                parameter.copy_(torch.linalg.vector_norm(weight.float(), dim=1))
