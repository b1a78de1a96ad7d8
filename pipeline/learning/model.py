"""The frozen base with a trainable adapter on every chosen linear layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

from pipeline.base.adapter_format import CONFIG_FILE, WEIGHTS_FILE, lora_config
from pipeline.base.artifacts import write_json
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import SUPPORTED_MODELS
from pipeline.base.loading import linear_modules, load_base
from pipeline.base.params import TrainParams
from pipeline.learning.attention import DOCUMENTS, register

ADAPTER = "default"


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


def build(base: Path, params: TrainParams, training: dict[str, Any], device: str) -> Any:
    """A PEFT model ready to train: base frozen, adapter in fp32.

    Args:
        training: the `training` part of plan.json.
        device: where this rank computes.
    """
    register()
    model = load_base(
        base,
        dtype=training["base_dtype"],
        device=device,
        quantization=training["quantization"],
        attention=DOCUMENTS,
    )
    if model.config.model_type not in SUPPORTED_MODELS:
        raise UserError(
            f"{base}: model type {model.config.model_type!r} is not supported in training",
            f"Use a base of type {', '.join(SUPPORTED_MODELS)}.",
        )
    config = LoraConfig(
        r=params.rank,
        lora_alpha=params.alpha,
        lora_dropout=params.dropout,
        use_rslora=params.rslora,
        target_modules=target_suffixes(model, params.target_modules),
        bias="none",
        task_type="CAUSAL_LM",
    )
    if training["gradient_checkpointing"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    torch.manual_seed(params.seed)
    peft_model = get_peft_model(model, config)
    for parameter in peft_model.parameters():
        if parameter.requires_grad:
            # fp16 or bf16 masters lose updates smaller than their last bit.
            parameter.data = parameter.data.float()
    return peft_model.train()


def adapter_parameters(model: Any) -> dict[str, torch.nn.Parameter]:
    """Tensor name in the adapter file → fp32 master, in sorted order."""
    found = {
        name.replace(f".{ADAPTER}.weight", ".weight"): parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    return dict(sorted(found.items()))


def write_adapter(folder: Path, model: Any, base: Path, params: TrainParams) -> None:
    """Write the masters and their config in PEFT 0.9's format."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: parameter.detach().to("cpu", torch.float32).contiguous()
        for name, parameter in adapter_parameters(model).items()
    }
    save_file(tensors, str(folder / WEIGHTS_FILE))
    write_json(
        folder / CONFIG_FILE,
        lora_config(
            base_path=str(base),
            rank=params.rank,
            alpha=params.alpha,
            dropout=params.dropout,
            rslora=params.rslora,
            target_modules=list(model.peft_config[ADAPTER].target_modules),
        ),
    )


def read_adapter(folder: Path, model: Any) -> None:
    """Load the masters back; names and shapes must match exactly."""
    tensors = load_file(str(folder / WEIGHTS_FILE))
    parameters = adapter_parameters(model)
    if tensors.keys() != parameters.keys():
        odd = sorted(tensors.keys() ^ parameters.keys())[0]
        raise UserError(
            f"{folder}: tensor {odd} does not belong to this run", "Delete that checkpoint."
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])
