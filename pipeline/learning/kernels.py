"""Which attention kernels a run uses: chosen by table, checked on the device, said in the log.

Called by worker.py before the first step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pipeline.base.loading import DTYPES
from pipeline.base.params import TrainParams
from pipeline.learning.attention import capability_of, choose
from pipeline.learning.attention.check import verified


def attention_backends(
    params: TrainParams,
    training: dict[str, Any],
    config: Any,
    device: torch.device,
    log: Callable[[str], None],
) -> tuple[str, ...]:
    """Names of the backends that are right here, fastest first.

    On a CPU there is one, which the tests compare with the reference.

    Args:
        training: the `training` part of plan.json.
        config: transformers' config of the base.

    Raises:
        UserError: the asked backend cannot work here, or none computes rightly.
    """
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    dtype = DTYPES[training["compute_dtype"]]
    choice = choose(params.attention, capability_of(device), dtype, head_dim)
    if device.type != "cuda":
        return choice.names
    grouped = config.num_key_value_heads != heads
    choice, verdicts = verified(choice, device, dtype, head_dim=head_dim, grouped=grouped)
    errors = ", ".join(f"{one.backend} {one.error:.1e}" for one in verdicts if one.reason is None)
    log(f"attention: {', '.join(choice.names)} (largest errors against float64: {errors})")
    for name, reason in choice.refused:
        log(f"attention: {name} is not used, it {reason}")
    return choice.names
