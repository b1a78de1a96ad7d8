"""The table of attention backends: what each needs, and which one takes a row.

Read by the training worker (`choose`, then check.py's `verified`), by entry.py when
it describes a row, and by op.py on every call. A new backend is a new line here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn.attention.flex_attention import BlockMask

from pipeline.base.errors import UserError
from pipeline.learning.attention import documents, equal, varlen
from pipeline.learning.attention.dense import HALVES, Capability, Pair, Saved, Triple, flash_takes
from pipeline.learning.attention.packing import Documents

Forward = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Documents, float], Pair]
Backward = Callable[[torch.Tensor, Saved, Documents, float], Triple]
CUDNN = 90_000
"""Least version that is used: Hopper's kernels are of its generation."""


@dataclass(frozen=True)
class Backend:
    """One way to attend inside each document of a packed row.

    Attributes:
        capability: least of a CUDA device; None takes any device at all.
        dtypes: compute types; None takes any.
        head_dim: whether both directions exist for this size on this capability.
        feature: whether this torch has what is called.
        takes: whether these document lengths can be handled.
        kernel: forward and backward for the operator; None where torch compiles
            the backend into the layer.
    """

    name: str
    capability: Capability | None = None
    dtypes: frozenset[torch.dtype] | None = None
    head_dim: Callable[[int, Capability], bool] = lambda size, capability: True
    feature: Callable[[], bool] = lambda: True
    takes: Callable[[Sequence[int]], bool] = lambda lengths: True
    kernel: tuple[Forward, Backward] | None = None

    def lacks(self, capability: Capability | None, dtype: torch.dtype, head_dim: int) -> str | None:
        """Why it cannot be used, or None.

        Args:
            capability: of the CUDA device; None on any other device.
        """
        if self.capability is not None:
            least = "{}.{}".format(*self.capability)
            if capability is None:
                return f"needs a CUDA device of capability {least} or higher"
            if capability < self.capability:
                found = "{}.{}".format(*capability)
                return f"needs capability {least} or higher, not {found}"
        if self.dtypes is not None and dtype not in self.dtypes:
            return f"has no kernel for {str(dtype).removeprefix('torch.')}"
        if not self.head_dim(head_dim, capability or (0, 0)):
            return f"has no kernel for heads of {head_dim} on this device"
        return None if self.feature() else f"is not in torch {torch.__version__}"


def _flex_takes(head_dim: int, capability: Capability) -> bool:
    """Powers of two: other sizes are padded, and large ones need more shared memory."""
    return head_dim in (16, 32, 64, 128)


def _flex_present() -> bool:
    """Whether a block mask can be told that T is no multiple of the block."""
    return "seq_lengths" in inspect.signature(BlockMask.from_kv_blocks).parameters


def _cudnn_present() -> bool:
    known = hasattr(torch.ops.aten, "_scaled_dot_product_cudnn_attention_backward")
    return known and (torch.backends.cudnn.version() or 0) >= CUDNN


BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        Backend(
            "cudnn",
            capability=(8, 0),
            dtypes=HALVES,
            head_dim=lambda size, _: size % 8 == 0 and size <= 128,
            feature=_cudnn_present,
            takes=equal.takes,
            kernel=(equal.forward, equal.backward),
        ),
        Backend(
            "flex",
            capability=(8, 0),
            dtypes=HALVES,
            head_dim=_flex_takes,
            feature=_flex_present,
        ),
        Backend(
            "varlen",
            capability=(8, 0),
            dtypes=HALVES,
            head_dim=flash_takes,
            feature=varlen.known_signature,
            kernel=(varlen.forward, varlen.backward),
        ),
        Backend("sdpa", kernel=(documents.forward, documents.backward)),
    )
}
"""By name, in the order measured on Hopper: milliseconds of one layer, forward and
backward, 16,384 tokens as 1 / 8 / 32 documents: cudnn 17.2 / 2.9 / 1.5, flex
24.5 / 4.3 / 2.2, varlen 30.1 / 5.2 / 2.4."""
ELSEWHERE = ("cudnn", "varlen", "flex", "sdpa")
"""The order on other GPUs, of which no measurement here puts FlexAttention first."""


@dataclass(frozen=True)
class Choice:
    """Backends that can be used, fastest first, and why others cannot.

    `names` goes to `packing_of`; it always ends with one that takes every row.
    """

    names: tuple[str, ...]
    refused: tuple[tuple[str, str], ...] = ()
    """Name and reason."""


def choose(
    wanted: str,
    capability: Capability | None,
    dtype: torch.dtype,
    head_dim: int,
) -> Choice:
    """Which backends `train.attention` means on this device, not yet verified.

    Args:
        wanted: "auto", or a name that is to be preferred where it takes a row.
        capability: `capability_of` the device.
        dtype: compute type of queries, keys and values.
        head_dim: size of one head.

    Raises:
        UserError: the wanted backend cannot work here.
    """
    hopper = capability is not None and capability[0] == 9
    order = tuple(BACKENDS) if hopper else ELSEWHERE
    reasons = {name: BACKENDS[name].lacks(capability, dtype, head_dim) for name in order}
    if wanted == "auto":
        refused = tuple((name, reason) for name, reason in reasons.items() if reason is not None)
        return Choice(tuple(name for name in order if reasons[name] is None), refused)
    if reasons[wanted] is not None:
        raise UserError(
            f"train.attention: {wanted} {reasons[wanted]}", "Set it to `auto` or to `sdpa`."
        )
    # What takes only some rows, or lies outside of the operator, needs a stand-in.
    rest = [name for name in ("varlen", "sdpa") if reasons[name] is None and name != wanted]
    return Choice((wanted, *rest[:1]) if wanted in ("cudnn", "flex") else (wanted,))


def first_fitting(names: Sequence[str], lengths: Sequence[int]) -> str:
    """The first of these backends that takes these documents."""
    return next(name for name in names if BACKENDS[name].takes(lengths))
