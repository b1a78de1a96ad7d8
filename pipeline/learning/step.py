"""One optimizer step: micro-batches in, one update out, or nothing at all.

The loss of a step is the sum over its trained tokens divided by their number in
the whole step, over all micro-batches and ranks, known beforehand from the data.
So the update does not depend on how the step is cut up.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist

from pipeline.base.curriculum import Curriculum
from pipeline.base.loading import DTYPES
from pipeline.base.stage_table import micro_batch_sequences
from pipeline.learning.attention import packing_of
from pipeline.learning.data import Batch, PackedData, micro_batches, padded
from pipeline.learning.job import Job
from pipeline.learning.loss import DocumentLoss
from pipeline.learning.optimizers import AdapterOptimizer

SMALLEST_SCALE = 1.0
FIRST_SCALE = 2.0**15
STEADY_STEPS = 500
"""Steps without an overflow after which the fp16 loss scale is doubled."""


class NonFinite(Exception):
    """A loss or a gradient is not finite; the parameters were not touched."""


class Stopped(Exception):
    """A signal came during the step; its work is thrown away."""


@dataclass(frozen=True)
class StepResult:
    """Figures of one completed step, over all ranks."""

    loss: float
    """Mean over trained tokens, in nats."""
    token_accuracy: float
    grad_norm: float
    tokens: int
    trained_tokens: int
    squared_lengths: int = 0
    """Sum of L² over the step's documents: what their attention costs."""


@dataclass
class Scaler:
    """Loss scale of fp16: halved and the step repeated on overflow; 1 elsewhere.

    A repeated step sees the same batch, so that no data is skipped and the run
    stays a function of its inputs.
    """

    scale: float
    good_steps: int = 0
    grows: bool = False
    """True in fp16, whatever the scale has fallen to."""

    def overflow(self) -> None:
        """Halve the scale.

        Raises:
            NonFinite: it cannot be halved any more, so the numbers are truly bad.
        """
        if self.scale <= SMALLEST_SCALE:
            raise NonFinite("loss or gradient is not finite")
        self.scale, self.good_steps = self.scale / 2, 0

    def completed(self) -> None:
        """Count a good step and grow a scale that has long been safe."""
        self.good_steps += 1
        if self.grows and self.good_steps >= STEADY_STEPS:
            self.scale, self.good_steps = self.scale * 2, 0


class Stepper:
    """Runs steps of one job on this rank's device.

    Args:
        poll: called before every micro-batch; true on any rank stops the step.
        backends: of the packed attention, fastest first.
    """

    def __init__(
        self,
        job: Job,
        loss: DocumentLoss,
        data: PackedData,
        parameters: list[torch.nn.Parameter],
        optimizer: AdapterOptimizer,
        *,
        device: torch.device,
        rank: int,
        ranks: int,
        scaler: Scaler,
        poll: Callable[[], bool],
        backends: tuple[str, ...] = ("sdpa",),
    ) -> None:
        self.job, self.params, self.loss, self.data = job, job.params, loss, data
        self.curriculum = Curriculum(
            job.stages, data.buckets, job.tokens_per_step, self.params.seed
        )
        self.parameters, self.optimizer = parameters, optimizer
        self.device, self.rank, self.ranks = device, rank, ranks
        self.scaler, self.poll, self.backends = scaler, poll, backends

    def run(self, step: int, learning_rate: float, starts: Sequence[int] = (0,)) -> StepResult:
        """Make step `step` (0-based) with this rate.

        Args:
            starts: first step of every stage of the curriculum.

        Raises:
            NonFinite: nothing was updated and nothing may be saved.
            Stopped: nothing was updated; the last completed step still stands.
        """
        slots = self.curriculum.slots(step, starts)
        chosen = np.concatenate([slot.bins for slot in slots])
        trained = self.data.trained_tokens(chosen)
        length = self.job.stages[self.curriculum.stage_of(step, starts)].sequence_tokens
        size = micro_batch_sequences(length, self.job.micro_batch_tokens)
        mine = micro_batches(slots, rank=self.rank, ranks=self.ranks, micro_batch=size)
        room = size * length if self.job.training.get("compile", False) else 0
        while True:
            batches = [padded(self.data.batch(one), room) for one in mine]
            summed, hits = self._accumulate(step, batches, trained)
            norm = self._clip()
            if math.isfinite(summed) and math.isfinite(norm):
                break
            self.scaler.overflow()
        self._update(learning_rate)
        self.scaler.completed()
        tokens, squares = self.data.tokens_in(chosen), self.data.squared_lengths(chosen)
        return StepResult(summed / trained, hits / trained, norm, tokens, trained, squares)

    def _accumulate(self, step: int, batches: list[Batch], trained: int) -> tuple[float, float]:
        """Gradients of the whole step in `.grad`; summed loss and hits of all ranks."""
        self.optimizer.zero_grad(set_to_none=True)
        totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        for number, batch in enumerate(batches):
            if self._anyone_stopped():
                raise Stopped
            # Dropout depends on the place in the run alone, so resuming needs no generator state.
            torch.manual_seed(_dropout_seed(self.params.seed, step, number, self.rank))
            with self._autocast():
                summed, hits = self.loss(
                    torch.from_numpy(batch.tokens).to(self.device),
                    torch.from_numpy(batch.positions).to(self.device),
                    torch.from_numpy(batch.targets).to(self.device),
                    packing_of(batch.lengths, self.device, self.backends),
                )
            (summed * (self.scaler.scale / trained)).backward()
            totals += torch.stack([summed.detach().double(), hits.double()])
        if self.ranks > 1:
            dist.all_reduce(totals)
            self._sum_gradients()
        summed_all, hits_all = totals.tolist()
        return summed_all, hits_all

    def _sum_gradients(self) -> None:
        """Add up the ranks' gradients; adapters are small enough for one message."""
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        flat = torch.cat([p.grad.flatten() for p in self.parameters if p.grad is not None])
        dist.all_reduce(flat)
        parts = flat.split([p.numel() for p in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)

    def _clip(self) -> float:
        """Undo the loss scale, clip in place, and return the norm before clipping."""
        if self.scaler.scale != 1.0:
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(1.0 / self.scaler.scale)
        self.optimizer.add_gradients()
        return float(torch.nn.utils.clip_grad_norm_(self.parameters, self.params.clip_norm))

    def _update(self, learning_rate: float) -> None:
        self.optimizer.set_rate(learning_rate)
        self.optimizer.step()

    def _anyone_stopped(self) -> bool:
        """Whether any rank was asked to stop: all must leave the step together."""
        asked = self.poll()
        if self.ranks == 1:
            return asked
        flag = torch.tensor([float(asked)], device=self.device)
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        return bool(flag.item())

    @contextlib.contextmanager
    def _autocast(self) -> Iterator[None]:
        compute, stored = (self.job.training[key] for key in ("compute_dtype", "base_dtype"))
        dtype = DTYPES[compute]
        if dtype is torch.float32 or (compute == stored and self.params.method == "lora"):
            # Our own layers cast what they must; autocast would add its own passes.
            yield
            return
        with torch.autocast(self.device.type, dtype=dtype):
            yield


def _dropout_seed(seed: int, step: int, number: int, rank: int) -> int:
    """A seed for one micro-batch of one rank; all 63 bits are used."""
    key = np.random.SeedSequence([seed, step, number, rank])
    return int(key.generate_state(1, np.uint64)[0] >> np.uint64(1))
