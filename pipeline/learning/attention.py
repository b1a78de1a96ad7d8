"""Causal attention inside each document of a packed row, and nowhere else.

Registered with transformers under `DOCUMENTS`. The lengths travel with every
forward call as the keyword `document_lengths`; each document is one call of
scaled-dot-product attention with its own causal mask, so that no mask of T² is
built and no document can see another. A call without lengths is refused, since
the quiet alternative is a leak.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

DOCUMENTS = "tracebox_documents"


def _native_grouping(query: torch.Tensor) -> bool:
    """Whether the fast kernels of this device read grouped keys as they are."""
    return query.is_cuda and torch.cuda.get_device_capability(query.device) >= (8, 0)


def attend_documents(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    document_lengths: tuple[int, ...] | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention over whole documents laid end to end.

    Args:
        query: [1, heads, T, head_dim]; key and value: [1, kv_heads, T, head_dim].
        attention_mask: must be None; the documents are the mask.
        scaling: factor on the scores, 1/√head_dim by default.
        document_lengths: tokens of each document, summing to T.
        sliding_window: must not be shorter than any document.

    Returns:
        [1, T, heads, head_dim] and None, as transformers expects.

    Raises:
        ValueError: the call could not be answered without a leak.
    """
    if document_lengths is None or attention_mask is not None or query.shape[0] != 1:
        raise ValueError("packed attention needs document_lengths, one row and no mask")
    if sum(document_lengths) != query.shape[2]:
        raise ValueError(f"document lengths sum to {sum(document_lengths)}, not {query.shape[2]}")
    if sliding_window is not None and max(document_lengths) > sliding_window:
        raise ValueError(f"a document is longer than the model's window of {sliding_window}")
    grouped = query.shape[1] != key.shape[1]
    if grouped and not _native_grouping(query):
        repeats = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
        grouped = False
    lengths = list(document_lengths)
    options: dict[str, Any] = {"enable_gqa": True} if grouped else {}
    parts = [
        scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=scaling, dropout_p=dropout, **options
        )
        for q, k, v in zip(
            query.split(lengths, 2), key.split(lengths, 2), value.split(lengths, 2), strict=True
        )
    ]
    return torch.cat(parts, 2).transpose(1, 2).contiguous(), None


def register() -> None:
    """Make `DOCUMENTS` a valid `attn_implementation`. Idempotent."""
    AttentionInterface.register(DOCUMENTS, attend_documents)
