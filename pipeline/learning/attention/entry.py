"""Causal attention inside each document of a packed row, as transformers calls it.

Registered with transformers under `DOCUMENTS`. The documents travel with every
forward call as the keyword `document_lengths`: a `PackedLengths` made once a batch
by `packing_of`, or a plain tuple. A call without them is refused, since the quiet
alternative is a leak between documents.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from transformers import AttentionInterface

from pipeline.learning.attention import documents, flex
from pipeline.learning.attention.blocks import block_mask
from pipeline.learning.attention.op import packed_attention
from pipeline.learning.attention.packing import PackedLengths
from pipeline.learning.attention.table import BACKENDS, first_fitting

DOCUMENTS = "tracebox_documents"


def packing_of(
    lengths: tuple[int, ...],
    device: torch.device,
    backends: tuple[str, ...] = ("sdpa",),
) -> PackedLengths:
    """Describe one row of documents for these backends, fastest first.

    The last eight answers are kept, since every layer that is given a plain tuple
    asks again.

    Args:
        lengths: tokens of each document, in order.
        device: where queries will lie.
        backends: `Choice.names`, as `choose` or `verified` returned it.

    Raises:
        ValueError: no document, or one without tokens.
    """
    if not lengths or min(lengths) < 1:
        raise ValueError(f"a document without tokens cannot be packed: {lengths[:8]}")
    return _packing_of(lengths, device, backends)


@lru_cache(maxsize=8)
def _packing_of(
    lengths: tuple[int, ...], device: torch.device, backends: tuple[str, ...]
) -> PackedLengths:
    kernels = tuple(name for name in backends if BACKENDS[name].kernel is not None)
    inlined = BACKENDS[first_fitting(backends, lengths)].kernel is None
    # Kept tensors outlive an evaluation, and training could not save inference tensors.
    with torch.inference_mode(False):
        blocks = block_mask(lengths, device) if inlined else None
        return PackedLengths(lengths, device, kernels, blocks)


def attend_documents(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    document_lengths: PackedLengths | tuple[int, ...] | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention over whole documents laid end to end.

    Args:
        query: [1, heads, T, head_dim]; key and value: [1, kv_heads, T, head_dim].
        attention_mask: must be None; the documents are the mask.
        scaling: factor on the scores, 1/√head_dim by default.
        dropout: on attention weights; other than 0, one call a document is made
            whatever the backends are, and a compiled layer fits one batch only.
        document_lengths: the documents, of T tokens together.
        sliding_window: must not be shorter than any document.

    Returns:
        [1, T, heads, head_dim] and None, as transformers expects.

    Raises:
        ValueError: the call could not be answered without a leak.
    """
    if document_lengths is None or attention_mask is not None or query.shape[0] != 1:
        raise ValueError("packed attention needs document_lengths, one row and no mask")
    packing = document_lengths
    if isinstance(packing, tuple):
        packing = packing_of(packing, query.device)
    if packing.tokens != query.shape[2]:
        raise ValueError(f"document lengths sum to {packing.tokens}, not {query.shape[2]}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    query, key, value = _in_compute_type(query, key, value)
    if dropout:
        _refuse_long(packing, sliding_window)
        parts = query, key, value, packing.lengths, scale, dropout
        return documents.with_dropout(*parts).contiguous(), None
    # With a window, the operator looks at each length; a compiled layer cannot.
    if packing.blocks is not None and sliding_window is None:
        out = flex.attend(query, key, value, packing.blocks, scale)
        return out.transpose(1, 2).contiguous(), None
    out, _sums = packed_attention(
        query, key, value, packing.bounds, packing.host_bounds, scale, packing.kernels,
        sliding_window or 0,
    )  # fmt: skip
    return out, None


def _refuse_long(packing: PackedLengths, window: int | None) -> None:
    if window is not None and packing.longest > window:
        raise ValueError(f"a document is longer than the model's window of {window}")


def _in_compute_type(*heads: torch.Tensor) -> list[torch.Tensor]:
    """In one type: autocast knows torch's own operators, not ours."""
    kind = heads[0].device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        return [x.to(dtype) for x in heads]
    return list(heads)


def register() -> None:
    """Make `DOCUMENTS` a valid `attn_implementation`. Idempotent."""
    AttentionInterface.register(DOCUMENTS, attend_documents)
