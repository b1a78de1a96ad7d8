"""Cross-entropy on the tokens to be learnt, without ever holding all logits.

Full logits of 16,384 × 151,936 in fp32 are 9.3 GiB. Only places that carry loss reach the
head, in chunks of one size (the last is filled up with places that do not count, so that a
compiled chunk is compiled once). The head is frozen: the gradient to the hidden states is
made chunk by chunk beside the loss, in the forward pass, and no logits are made twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from pipeline.learning.attention import PackedLengths
from pipeline.learning.sharded import whole_weight

IGNORED = -1
"""Label of a place that does not count."""
_HALF_GAIN = 1024.0
"""Factor on fp16 gradients while they are stored: those of well-known tokens would be
subnormal. Removed again in the backward pass."""

Chunk = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def chunk_loss(logits: torch.Tensor, labels: torch.Tensor, smoothing: float, gain: float) -> Chunk:
    """Loss, hits and gradient of one chunk.

    With p = softmax(z) over V entries and ε = `smoothing` the loss of a place is
    logsumexp(z) − (1 − ε) z_label − ε mean(z), its gradient p − (1 − ε) onehot − ε/V
    (Szegedy et al., arXiv 1512.00567, §7).

    Args:
        logits: [M, V].
        labels: int64 [M]; places with a negative label do not count.
        gain: factor on the gradient.

    Returns:
        fp32 scalar, int64 scalar, [M, V] in the dtype of `logits`.
    """
    counts = labels >= 0
    wanted = labels.clamp(min=0)[:, None]
    z = logits.float()
    normaliser = torch.logsumexp(z, -1, keepdim=True)
    asked = z.gather(1, wanted)
    loss = normaliser - (1 - smoothing) * asked
    gradient = (z - normaliser).exp_()
    if smoothing > 0:
        loss = loss - smoothing * z.mean(-1, keepdim=True)
        gradient -= smoothing / z.shape[1]
    hits = ((asked >= z.amax(-1, keepdim=True))[:, 0] & counts).sum()
    if torch.compiler.is_compiling():
        # Fused into the same kernel; a scatter would write the chunk in fp32 first.
        entries = torch.arange(z.shape[1], device=z.device)
        gradient = torch.where(entries == wanted, gradient - (1 - smoothing), gradient)
    else:
        gradient.scatter_add_(1, wanted, torch.full_like(asked, smoothing - 1))
    gradient *= gain * counts[:, None]
    return (loss[:, 0] * counts).sum(), hits, gradient.to(logits.dtype)


class _HeadLoss(torch.autograd.Function):
    """Sum of the loss over places, its gradient to the hidden states made on the way."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        chunk: int,
        smoothing: float,
        of_chunk: Callable[[torch.Tensor, torch.Tensor, float, float], Chunk],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gain = _HALF_GAIN if hidden.dtype is torch.float16 else 1.0
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        correct = torch.zeros((), dtype=torch.int64, device=hidden.device)
        gradient = torch.empty_like(hidden)
        for states, wanted, place in zip(
            hidden.split(chunk), labels.split(chunk), gradient.split(chunk), strict=True
        ):
            missing = chunk - len(states)
            filled = pad(states, (0, 0, 0, missing)) if missing else states
            marked = pad(wanted, (0, missing), value=IGNORED) if missing else wanted
            loss, hits, slope = of_chunk(filled @ weight.t(), marked, smoothing, gain)
            total, correct = total + loss, correct + hits
            if ctx.needs_input_grad[0]:
                torch.mm(slope[: len(states)], weight, out=place)
        ctx.save_for_backward(gradient)
        ctx.gain = gain
        ctx.mark_non_differentiable(correct)
        return total, correct

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        slope = slopes[0] / ctx.gain
        return (gradient.float() * slope).to(gradient.dtype), *(None for _ in range(5))


def token_loss(
    weight: torch.Tensor,
    hidden: torch.Tensor,
    labels: torch.Tensor,
    chunk: int,
    *,
    smoothing: float = 0.0,
    compiled: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum of −log p(label) and number of places where no token is likelier than the label.

    Args:
        weight: of the frozen output head, [V, hidden].
        hidden: [M, hidden] in the head's dtype, states from which the labels are predicted.
        labels: int64 [M].
        chunk: places whose logits exist at the same time; 2,048 places of 151,936
            entries are 0.6 GiB of bf16.
        smoothing: ε of `chunk_loss`.
        compiled: make one kernel of a chunk's arithmetic.

    Returns:
        fp32 scalar with gradient to `hidden`, int64 scalar without.
    """
    of_chunk = _compiled_chunk() if compiled else chunk_loss
    function: Any = _HeadLoss
    total, correct = function.apply(hidden, weight, labels, chunk, smoothing, of_chunk)
    return total, correct


@lru_cache(maxsize=1)
def _compiled_chunk() -> Callable[[torch.Tensor, torch.Tensor, float, float], Chunk]:
    return torch.compile(chunk_loss, dynamic=False)


class DocumentLoss(nn.Module):
    """A causal language model as a function from packed documents to summed loss.

    Args:
        causal: the base with its adapters in place.
        chunk: see `token_loss`; the plan chooses it by memory.
        smoothing: see `chunk_loss`.
        compiled: see `token_loss`.
    """

    def __init__(
        self, causal: Any, chunk: int, *, smoothing: float = 0.0, compiled: bool = False
    ) -> None:
        super().__init__()
        self.chunk, self.smoothing, self.compiled = chunk, smoothing, compiled
        self.decoder: nn.Module = getattr(causal, causal.base_model_prefix)
        self.head: nn.Module = causal.get_output_embeddings()

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        targets: torch.Tensor,
        lengths: PackedLengths | tuple[int, ...],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Summed loss and hits over `targets`; shapes as in `data.Batch`."""
        output = self.decoder(
            input_ids=tokens[None],
            position_ids=positions[None],
            use_cache=False,
            document_lengths=lengths,
        )
        hidden = output.last_hidden_state[0].index_select(0, targets - 1)
        labels = tokens.index_select(0, targets)
        with whole_weight(self.head) as weight:
            if torch.is_autocast_enabled(hidden.device.type):
                dtype = torch.get_autocast_dtype(hidden.device.type)
                hidden, weight = hidden.to(dtype), weight.to(dtype)
            return self._of_places(weight, hidden, labels)

    def _of_places(
        self, weight: torch.Tensor, hidden: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`token_loss` with this object's settings, in the precision of its arguments."""
        with torch.autocast(hidden.device.type, enabled=False):
            return token_loss(
                weight,
                hidden,
                labels,
                self.chunk,
                smoothing=self.smoothing,
                compiled=self.compiled,
            )
