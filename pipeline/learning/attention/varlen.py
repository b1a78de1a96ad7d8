"""All documents in one call of FlashAttention-2 with its own table of document ends.

The backend `varlen` of table.py, called inside the operator. These are the two
aten operators under torch's `varlen_attn`; their first arguments have stayed the
same over the versions, while the public function has changed (grouped heads are a
keyword in torch 2.13 and no question in 2.11).
"""

from __future__ import annotations

from functools import cache

import torch

from pipeline.learning.attention.dense import Pair, Saved, Triple
from pipeline.learning.attention.layout import tokens_first, unused_random_state
from pipeline.learning.attention.packing import Documents

FORWARD = (
    "query", "key", "value", "cum_seq_q", "cum_seq_k", "max_q", "max_k", "dropout_p", "is_causal",
    "return_debug_mask",
)  # fmt: skip
BACKWARD = (
    "grad_out", "query", "key", "value", "out", "logsumexp", "cum_seq_q", "cum_seq_k", "max_q",
    "max_k", "dropout_p", "is_causal",
)  # fmt: skip


@cache
def known_signature() -> bool:
    """Whether this torch's operators begin with the arguments that are given here."""
    for name, wanted in (
        ("_flash_attention_forward", FORWARD),
        ("_flash_attention_backward", BACKWARD),
    ):
        operator = getattr(torch.ops.aten, name, None)
        if operator is None:
            return False
        names = [argument.name for argument in operator.default._schema.arguments]
        if tuple(names[: len(wanted)]) != wanted:
            return False
    return True


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, documents: Documents, scale: float
) -> Pair:
    """Output [1, T, heads, head_dim] and log-sums [heads, T]; see op.py.

    Raises:
        RuntimeError: this torch shapes the log-sums otherwise.
    """
    ends, longest = documents.cu_seqlens, max(documents.lengths)
    rows = (tokens_first(x)[0] for x in (q, k, v))
    result = torch.ops.aten._flash_attention_forward(
        *rows, ends, ends, longest, longest, 0.0, True, False, scale=scale
    )
    out, sums = result[0], result[1]
    if sums.shape != (q.shape[1], q.shape[2]):
        raise RuntimeError(f"log-sums of unknown shape {tuple(sums.shape)}")
    return out[None], sums


def backward(grad: torch.Tensor, saved: Saved, documents: Documents, scale: float) -> Triple:
    """Gradients of query, key and value; see op.py."""
    q, k, v, out, sums = saved
    ends, longest = documents.cu_seqlens, max(documents.lengths)
    rows = [tokens_first(x)[0] for x in (grad, q, k, v, out)]
    dq, dk, dv = torch.ops.aten._flash_attention_backward(
        *rows, sums[0], ends, ends, longest, longest, 0.0, True, *unused_random_state(q),
        scale=scale,
    )  # fmt: skip
    return tokens_first(dq[None]), tokens_first(dk[None]), tokens_first(dv[None])
