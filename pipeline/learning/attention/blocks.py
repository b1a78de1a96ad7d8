"""Which 128 × 128 blocks of the score matrix a packed row needs, for FlexAttention.

Called once a batch. Worked out from the lengths alone: the usual way, asking a
function about each of T² scores, takes 268 MB at 16,384 tokens.
"""

from __future__ import annotations

import torch
from torch.nn.attention.flex_attention import BlockMask

BLOCK = 128
"""Rows and columns of a block; the kernels' own tile size."""


def document_starts(lengths: tuple[int, ...]) -> torch.Tensor:
    """int32 [T]: for each token, where its document starts."""
    sizes = torch.tensor(lengths)
    return (sizes.cumsum(0) - sizes).repeat_interleave(sizes).to(torch.int32)


def needed_blocks(starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Blocks of which some scores are needed, and blocks of which all are.

    Args:
        starts: as from `document_starts`.

    Returns:
        bool [rows of blocks, columns of blocks] twice; no block is in both.
    """
    tokens = starts.numel()
    first = starts[::BLOCK, None]
    rows = torch.arange(0, tokens, BLOCK)
    last = starts[(rows + BLOCK - 1).clamp(max=tokens - 1), None]
    column, row = rows, rows[:, None]
    used = (column > first - BLOCK) & (column <= row)
    # The document of the last token has begun at this column, hence before this row.
    # A last row of blocks that hangs over the end is never whole.
    whole = (column >= last) & (column < row) & (row + BLOCK <= tokens)
    return used & ~whole, whole


def _ordered(blocks: torch.Tensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Number of blocks in each row, and their columns first and in ascending order."""
    counts = blocks.sum(-1, dtype=torch.int32)
    columns = blocks.int().argsort(dim=-1, descending=True, stable=True).int()
    return counts[None, None].to(device), columns[None, None].contiguous().to(device)


def block_mask(lengths: tuple[int, ...], device: torch.device) -> BlockMask:
    """Causal attention inside each document, as FlexAttention reads it.

    The rule inside a block reads a tensor of document starts, so that its code,
    and with it what is compiled, is the same for all lengths.
    """
    host = document_starts(lengths)
    partial, whole = needed_blocks(host)
    starts = host.to(device)

    def within(
        batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        return (key >= starts[query]) & (key <= query)

    return BlockMask.from_kv_blocks(
        *_ordered(partial, device),
        *_ordered(whole, device),
        BLOCK_SIZE=BLOCK,
        mask_mod=within,
        seq_lengths=(len(host), len(host)),
    )
