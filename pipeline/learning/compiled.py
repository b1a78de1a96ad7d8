"""Decoder layers made fast: compiled once for all, and recomputed as far as memory asks.

Called by model.py. All layers of a model run the same code on other weights, so torch
compiles one and uses it for each. What a compiled layer keeps for its backward pass is
chosen by torch's min-cut partitioner: results of matrix products and of attention, while
element-wise work is repeated. On top of that whole layers can be recomputed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pipeline.learning.offload import HostEmbedding, recompute_from_host
from pipeline.learning.sharded import is_unit

CHEAP_TO_REPEAT = (
    "ban_recompute_used_far_apart",
    "ban_recompute_long_fusible_chains",
    "ban_recompute_materialized_backward",
)
"""Settings of torch's partitioner that make it keep results of element-wise work, too. Off,
Qwen3-14B's layers keep a third less and are as fast (bench/RESULTS.md)."""


def decoder_layers(causal: Any) -> list[Any]:
    """The decoder layers of a transformers model, first to last."""
    decoder: Any = getattr(causal, causal.base_model_prefix)
    return list(decoder.layers)


def prepare_layers(causal: Any, training: dict[str, Any]) -> None:
    """Set up recomputation and compilation as the plan says.

    The first layers are the recomputed ones: their turn in the backward pass comes when
    what later layers had kept is already free.

    Args:
        training: the `training` part of plan.json.
    """
    layers = decoder_layers(causal)
    recomputed = recomputed_layers(training, len(layers))
    if recomputed:
        causal.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        for layer in layers[recomputed:]:
            layer.gradient_checkpointing = False
    if training.get("offload", False):
        device = torch.device(next(iter(causal.parameters())).device)
        recompute_from_host(layers[:recomputed], device)
        embedding = causal.get_input_embeddings()
        if embedding.weight is not causal.get_output_embeddings().weight:
            causal.set_input_embeddings(HostEmbedding(embedding, device))
    if training.get("compile", False):
        compile_layers(layers)


def recomputed_layers(training: dict[str, Any], layers: int) -> int:
    """How many layers are recomputed as a whole."""
    if not training["gradient_checkpointing"]:
        return 0
    asked = training.get("recomputed_layers")
    return layers if asked is None else min(layers, int(asked))


def compile_layers(layers: list[nn.Module], backend: str = "inductor") -> None:
    """Compile every layer in place; the code is made at its first call and shared.

    Args:
        backend: of torch.compile.
    """
    for key in CHEAP_TO_REPEAT:
        setattr(torch._functorch.config, key, False)
    for layer in layers:
        if is_unit(layer):
            # Its weights are gathered by hooks, which must stay outside of what is compiled.
            layer.forward = torch.compile(layer.forward, dynamic=False, backend=backend)
        else:
            layer.compile(dynamic=False, backend=backend)
