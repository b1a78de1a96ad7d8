"""Cross-entropy on the tokens to be learnt, without ever holding all logits.

Full logits of 16,384 × 151,936 in fp32 are 9.3 GiB. Only places that carry loss
reach the head, in chunks whose logits are made again in the backward pass.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint


def _chunk_loss(
    head: nn.Module, hidden: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    logits = head(hidden).float()
    loss = cross_entropy(logits, labels, reduction="sum")
    return loss, (logits.detach().argmax(-1) == labels).sum()


def token_loss(
    head: nn.Module, hidden: torch.Tensor, labels: torch.Tensor, chunk: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum of −log p(label) and number of places where the label is most likely.

    Args:
        head: output projection, hidden → vocabulary.
        hidden: [M, hidden], states from which the labels are predicted.
        labels: int64 [M].
        chunk: places whose logits exist at the same time; 2,048 places of 151,936
            entries are 1.2 GiB of fp32.

    Returns:
        fp32 scalar with gradient, int64 scalar without.
    """
    total = hidden.new_zeros((), dtype=torch.float32)
    correct = labels.new_zeros(())
    for states, wanted in zip(hidden.split(chunk), labels.split(chunk), strict=True):
        if torch.is_grad_enabled():
            loss, hits = cast(
                tuple[torch.Tensor, torch.Tensor],
                checkpoint(_chunk_loss, head, states, wanted, use_reentrant=False),
            )
        else:
            loss, hits = _chunk_loss(head, states, wanted)
        total = total + loss
        correct = correct + hits
    return total, correct


class DocumentLoss(nn.Module):
    """A causal language model as a function from packed documents to summed loss.

    Args:
        model: the PEFT model.
        chunk: see `token_loss`; the plan chooses it by memory.
    """

    def __init__(self, model: Any, chunk: int) -> None:
        super().__init__()
        self.chunk = chunk
        causal = model.get_base_model()
        self.model = model
        self.decoder: nn.Module = getattr(causal, causal.base_model_prefix)
        self.head: nn.Module = causal.get_output_embeddings()

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        targets: torch.Tensor,
        lengths: tuple[int, ...],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Summed loss and hits over `targets`; shapes as in `data.Batch`."""
        output = self.decoder(
            input_ids=tokens[None],
            position_ids=positions[None],
            use_cache=False,
            document_lengths=lengths,
        )
        hidden = output.last_hidden_state[0].index_select(0, targets - 1)
        return token_loss(self.head, hidden, tokens.index_select(0, targets), self.chunk)
