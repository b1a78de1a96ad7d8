"""The frozen base with a trainable adapter on every chosen linear layer.

Plain and rank-stabilised LoRA are trained by our own layers (linears.py), every other
method by PEFT's (methods.py). Either way an `Adapted` tells what is trained, under the
names that PEFT 0.9 gives the tensors in the adapter's file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from pipeline.base.adapter_format import CONFIG_FILE, KEY_PREFIX, WEIGHTS_FILE, file_name
from pipeline.base.artifacts import write_json
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import SUPPORTED_MODELS
from pipeline.base.loading import linear_modules, load_base
from pipeline.base.params import TrainParams
from pipeline.learning.attention import DOCUMENTS, register
from pipeline.learning.compiled import prepare_layers
from pipeline.learning.frozen import freeze
from pipeline.learning.linears import LoraLinear
from pipeline.learning.methods import build_peft, config_of
from pipeline.learning.sharded import load_sharded


@dataclass(frozen=True)
class Adapted:
    """A base with an adapter in place."""

    causal: Any
    """transformers' causal language model, its layers adapted."""
    masters: dict[str, nn.Parameter]
    """Tensor name in the adapter's file → fp32 parameter, in sorted order."""
    config: dict[str, Any]
    """adapter_config.json."""
    peft: Any = None
    """PEFT's wrapper, where PEFT's layers are trained."""


def target_suffixes(model: torch.nn.Module, wanted: list[str] | str) -> list[str]:
    """Last name parts of the linear layers to adapt, sorted.

    Raises:
        UserError: a wanted name is no linear layer of this base.
    """
    present = {name.rsplit(".", 1)[-1] for name in linear_modules(model)}
    if isinstance(wanted, str):
        return sorted(present)
    missing = sorted(set(wanted) - present)
    if missing:
        raise UserError(
            f"train.target_modules: {missing} are no linear layers of this base",
            f"Choose among {sorted(present)} or `all-linear`.",
        )
    return sorted(wanted)


def build(base: Path, params: TrainParams, training: dict[str, Any], device: str) -> Adapted:
    """A model ready to train: base frozen, adapter in fp32.

    Args:
        training: the `training` part of plan.json.
        device: where this rank computes.
    """
    register()
    dtype = training["base_dtype"]
    if training.get("parallel") == "sharded":
        causal = load_sharded(base, dtype=dtype, device=device, attention=DOCUMENTS)
    else:
        causal = load_base(
            base,
            dtype=dtype,
            device=device,
            quantization="nf4" if training["quantization"] == "nf4" else "none",
            attention=DOCUMENTS,
        )
    if causal.config.model_type not in SUPPORTED_MODELS:
        raise UserError(
            f"{base}: model type {causal.config.model_type!r} is not supported in training",
            f"Use a base of type {', '.join(SUPPORTED_MODELS)}.",
        )
    suffixes = target_suffixes(causal, params.target_modules)
    config = config_of(params, str(base), suffixes)
    torch.manual_seed(params.seed)
    if params.method == "lora":
        adapted = Adapted(
            causal, add_lora(causal, params, suffixes, training["quantization"]), config
        )
    else:
        wrapped = build_peft(causal, params, suffixes)
        adapted = Adapted(wrapped.get_base_model(), _peft_masters(wrapped), config, wrapped)
    prepare_layers(adapted.causal, training)
    adapted.causal.train()
    return adapted


def add_lora(
    causal: Any, params: TrainParams, suffixes: list[str], storage: str
) -> dict[str, nn.Parameter]:
    """Put a LoraLinear in the place of each chosen layer; store the others as well.

    Args:
        storage: see `frozen.freeze`.

    Returns:
        The masters, by their names in the adapter's file.
    """
    masters: dict[str, nn.Parameter] = {}
    generator = torch.Generator().manual_seed(params.seed)
    for name in sorted(linear_modules(causal)):
        parent, _, suffix = name.rpartition(".")
        layer: nn.Module = freeze(causal.get_submodule(name), storage)
        if suffix in suffixes:
            layer = LoraLinear(
                layer,
                rank=params.rank_pattern.get(suffix, params.rank),
                alpha=params.alpha_pattern.get(suffix, params.alpha),
                rslora=params.rslora,
                dropout=params.dropout,
            )
            layer.begin(generator)
            for side, parameter in (("lora_A", layer.lora_A), ("lora_B", layer.lora_B)):
                masters[f"{KEY_PREFIX}{name}.{side}.weight"] = parameter
        setattr(causal.get_submodule(parent), suffix, layer)
    return dict(sorted(masters.items()))


def _peft_masters(model: Any) -> dict[str, nn.Parameter]:
    found = {
        file_name(name): parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    return dict(sorted(found.items()))


def write_adapter(folder: Path, adapted: Adapted) -> None:
    """Write the masters and their config in PEFT 0.9's format."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: parameter.detach().to("cpu", torch.float32).contiguous()
        for name, parameter in adapted.masters.items()
    }
    save_file(tensors, str(folder / WEIGHTS_FILE))
    write_json(folder / CONFIG_FILE, adapted.config)


def read_adapter(folder: Path, adapted: Adapted) -> None:
    """Load the masters back; names and shapes must match exactly."""
    tensors = load_file(str(folder / WEIGHTS_FILE))
    if tensors.keys() != adapted.masters.keys():
        odd = sorted(tensors.keys() ^ adapted.masters.keys())[0]
        raise UserError(
            f"{folder}: tensor {odd} does not belong to this run", "Delete that checkpoint."
        )
    with torch.no_grad():
        for name, parameter in adapted.masters.items():
            parameter.copy_(tensors[name])
