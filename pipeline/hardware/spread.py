"""The base spread over several GPUs: whether it can be, and what a GPU still holds whole.

Used by planner.py and memory.py; pipeline/learning/sharded.py does it.
"""

from __future__ import annotations

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import ModelShape
from pipeline.base.params import Params
from pipeline.hardware.choices import Devices
from pipeline.hardware.counts import linear_elements
from pipeline.hardware.machine import Machine

FIRST_TORCH_TO_SPREAD = (2, 6)
"""First torch with torch.distributed.fsdp.fully_shard."""

GATHERED_LAYERS, GATHERED_TABLES = 3, 2
"""Whole layers, or embeddings or heads, on a device at once: the one at work, the next one on
its way and the buffer it arrives in; a table and its buffer."""


def gathered_elements(shape: ModelShape) -> tuple[int, str]:
    """Elements that a rank holds beside its own share: layers, or a table if those are larger.

    Returns:
        Their number, and how it comes about.
    """
    layer, table = linear_elements(shape) // shape.layers, shape.vocabulary * shape.hidden
    choices = [(GATHERED_LAYERS, layer, "layers"), (GATHERED_TABLES, table, "embeddings or heads")]
    count, each, what = max(choices, key=lambda one: one[0] * one[1])
    return count * each, f"{count} {what} × {each:,}"


def ways_to_spread(params: Params, devices: Devices, machine: Machine) -> list[bool]:
    """Whether the base is spread over the ranks: False, True, or both in order of preference.

    Raises:
        UserError: it is asked for and cannot be.
    """
    asked, hindrance = params.train.parallel, _hindrance(params, devices, machine)
    if asked == "sharded" and hindrance is not None:
        reason, remedy = hindrance
        raise UserError(f"train.parallel: sharded {reason}", f"Set train.parallel to auto{remedy}.")
    if asked == "auto":
        return [False] if hindrance else [False, True]
    return [asked == "sharded"]


def _hindrance(params: Params, devices: Devices, machine: Machine) -> tuple[str, str] | None:
    """Why the base cannot be spread, and what else would help; None if it can."""
    method, storage = params.train.method, params.train.base_quantization
    if devices.ranks < 2:
        return f"needs at least two GPUs, and here is {devices.ranks} × {devices.name}", ""
    if method != "lora":
        text = f"is for train.method: lora; the modules of {method} read whole weights"
        return text, ", or train.method to lora"
    if storage not in ("auto", "none"):
        text = f"cannot spread a base in {storage}, whose packed weights have no rows to share"
        return text, ", or train.base_quantization to none"
    version = tuple(int(part) for part in machine.torch.split(".")[:2])
    if version < FIRST_TORCH_TO_SPREAD:
        first = ".".join(map(str, FIRST_TORCH_TO_SPREAD))
        return f"needs torch {first} or newer, {machine.torch} is installed", ""
    return None
