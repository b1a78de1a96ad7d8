"""FlexAttention over the blocks that the documents need.

The backend `flex` of table.py. It is no part of the operator: torch compiles it into
the layer around it, or, where layers are not compiled, by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import cast

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention

Attend = Callable[..., torch.Tensor]


@cache
def _compiled() -> Attend:
    return cast(Attend, torch.compile(flex_attention, dynamic=False))


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    blocks: BlockMask,
    scale: float,
) -> torch.Tensor:
    """Attention inside each document, with gradients.

    Args:
        q: [1, heads, T, head_dim]; k and v: [1, kv_heads, T, head_dim].
        blocks: as from `blocks.block_mask`.

    Returns:
        [1, heads, T, head_dim].
    """
    inlined = torch.compiler.is_compiling()
    function = cast(Attend, flex_attention) if inlined else _compiled()
    return function(q, k, v, block_mask=blocks, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
