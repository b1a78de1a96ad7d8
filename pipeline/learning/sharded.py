"""A frozen base that is spread over the ranks, for bases that do not fit one device.

Called by model.py where the plan says `sharded`; reads the base's safetensors files. Every
rank keeps its rows of each weight. Those of one decoder layer are gathered before the layer
computes and given back after it (FSDP2, torch.distributed.fsdp.fully_shard). Adapters are
put in afterwards, so they are whole on every rank and their gradients are summed by step.py
as ever. The model is made without memory and each rank reads its own rows alone, so that the
host holds the base once at most, in the page cache.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
import transformers
from accelerate import init_empty_weights
from safetensors import safe_open
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import weight_files
from pipeline.base.loading import DTYPES


def load_sharded(base: Path, *, dtype: str, device: str, attention: str) -> Any:
    """The base, frozen, this rank's rows of it on this rank's device.

    Args:
        base: local folder; nothing is fetched.
        dtype: "bfloat16", "float16" or "float32".
        device: where this rank computes; the process group must exist.
        attention: name registered with transformers' attention interface.

    Raises:
        UserError: a weight of the model is not in the files, or has another shape there.
    """
    causal = _without_memory(base, dtype, attention)
    if causal.config.tie_word_embeddings:
        # One module, so that its rows are kept, and gathered, once.
        causal.set_output_embeddings(causal.get_input_embeddings())
    mesh = init_device_mesh(torch.device(device).type, (dist.get_world_size(),))
    spread(causal, mesh)
    read_rows(causal, base, torch.device(device), DTYPES[dtype])
    return causal


def _without_memory(base: Path, dtype: str, attention: str) -> Any:
    """The model with parameters that have a shape only; its buffers are real."""
    config = transformers.AutoConfig.from_pretrained(str(base), local_files_only=True)
    config.use_cache = False
    with init_empty_weights(include_buffers=False):
        causal = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation=attention, dtype=DTYPES[dtype]
        )
    return causal.requires_grad_(False).eval()


def spread(causal: Any, mesh: DeviceMesh) -> None:
    """Let every decoder layer, the embedding and the head be a unit that is gathered at once.

    The decoder around them holds the last norm, and lets a layer's weights travel while the
    layer before it computes.
    """
    # Here, since torch 2.5 has it elsewhere; the plan asks for it from 2.6 on.
    from torch.distributed.fsdp import fully_shard

    decoder = getattr(causal, causal.base_model_prefix)
    tables = [causal.get_input_embeddings(), causal.get_output_embeddings()]
    for unit in dict.fromkeys([*decoder.layers, *tables]):
        fully_shard(unit, mesh=mesh, reshard_after_forward=True)
    fully_shard(decoder, mesh=mesh, reshard_after_forward=False)


def read_rows(causal: Any, base: Path, device: torch.device, dtype: torch.dtype) -> None:
    """Fill every parameter with this rank's rows, file by file."""
    missing = {name for name, _ in causal.named_parameters()}
    for file in weight_files(base):
        with safe_open(str(file), framework="pt") as opened:
            for name in sorted(missing & set(opened.keys())):
                rows = opened.get_slice(name)
                _fill(causal, name, rows, device, dtype)
                missing.discard(name)
    if missing:
        raise UserError(
            f"{base}: {sorted(missing)[0]} is not in its safetensors files",
            "Set train.parallel to replicas, or save the base with transformers once.",
        )
    for buffer in causal.buffers():
        buffer.data = buffer.data.to(device)


def _fill(causal: Any, name: str, rows: Any, device: torch.device, dtype: torch.dtype) -> None:
    """Put rows of a file in the place of a parameter without memory."""
    place, _, attribute = name.rpartition(".")
    module = causal.get_submodule(place)
    empty: DTensor = getattr(module, attribute)
    if list(empty.shape) != list(rows.get_shape()):
        raise UserError(
            f"{name}: the file has shape {list(rows.get_shape())}, the model {list(empty.shape)}",
            "Use a base whose config.json belongs to its weights.",
        )
    count = empty.to_local().shape[0]
    first = min(dist.get_rank() * -(-empty.shape[0] // dist.get_world_size()), empty.shape[0])
    mine = rows[first : first + count].to(device=device, dtype=dtype)
    whole = DTensor.from_local(
        mine, empty.device_mesh, [Shard(0)], run_check=False, shape=empty.shape,
        stride=empty.stride(),
    )  # fmt: skip
    setattr(module, attribute, nn.Parameter(whole, requires_grad=False))


@contextlib.contextmanager
def whole_weight(layer: nn.Module) -> Iterator[torch.Tensor]:
    """The weight of a layer, gathered for as long as the block runs if it is spread."""
    unit: Any = layer if is_unit(layer) else None
    if unit is not None:
        unit.unshard()
    try:
        yield cast(torch.Tensor, layer.weight)
    finally:
        if unit is not None:
            unit.reshard()


def is_unit(layer: nn.Module) -> bool:
    """Whether it is one of those that `spread` gathers at once."""
    return hasattr(layer, "unshard")
