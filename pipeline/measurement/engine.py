"""Decode replies in batches on transformers' own modules, CPU and GPU alike.

Prompts of similar length share a batch, padded on the left; the key-value cache
is kept, and rows that have ended leave the batch, cache included. A reply does
not depend on its batch beyond the rounding of the model's own arithmetic (see
sampling.py). Prompt variants are decoded one after the other and share no batch,
so a further variant leaves the replies to the ones before it as they are. Used by
the baseline and evaluate stages.
"""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from pipeline.base.errors import UserError
from pipeline.base.progress import Progress
from pipeline.base.records import MAIN
from pipeline.measurement.sampling import Streams, choose_tokens

TimeLeft = Callable[[], float]
"""Seconds until decoding must stop."""


@dataclass(frozen=True, slots=True)
class Request:
    """One reply that is wanted."""

    problem: str
    """The problem's id."""
    sample: int
    prompt: tuple[int, ...]
    """Token ids that decoding starts from."""
    variant: str = MAIN
    """Name of the prompt variant that `prompt` was put with."""

    @property
    def name(self) -> str:
        """What seeds the reply's random stream; no two requests share it.

        That of `main` does not name it, so that its replies are those of a run
        without variants.
        """
        name = f"{self.problem}/{self.sample}"
        return name if self.variant == MAIN else f"{name}/{self.variant}"


@dataclass(frozen=True, slots=True)
class Reply:
    """One finished reply."""

    problem: str
    sample: int
    ids: tuple[int, ...]
    """Generated token ids, the end token included."""
    truncated: bool
    """A token limit ended it, not the model."""
    variant: str
    """As in the request."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How replies are decoded; the same for base and adapter."""

    temperature: float
    top_p: float
    max_new_tokens: int
    seed: int
    end_ids: frozenset[int]
    """Any of these ends a reply."""
    pad_id: int


def decode(
    model: Any,
    requests: list[Request],
    sampling: Sampling,
    batch_sequences: int,
    *,
    label: str = "decode",
    time_left: TimeLeft | None = None,
) -> list[Reply]:
    """Decode all requests, or as many as the time allows.

    Variants are decoded in the order in which they first appear. The batches of each
    are taken in an order that does not follow prompt length, so that what is finished
    when time runs out is no choice of the short problems.

    Returns:
        The finished replies, ordered by variant as decoded, then problem and sample;
        when `time_left` fell to zero the replies under way are left out.

    Raises:
        UserError: the model gives no finite logits, or one row exceeds the memory.
    """
    network = model.get_base_model() if hasattr(model, "get_base_model") else model
    run = _Run(network, sampling, time_left, Progress(label, "replies", len(requests)))
    order = {name: place for place, name in enumerate(dict.fromkeys(r.variant for r in requests))}
    for variant in order:
        asked = [request for request in requests if request.variant == variant]
        batches = list(_batches(asked, batch_sequences))
        random.Random(sampling.seed).shuffle(batches)
        for batch in batches:
            if not run.has_time():
                break
            run.decode_batch(batch)
    run.progress.close(run.rate())
    return sorted(run.replies, key=lambda r: (order[r.variant], r.problem, r.sample))


def _batches(requests: list[Request], size: int) -> Iterator[list[Request]]:
    ordered = sorted(requests, key=lambda request: (len(request.prompt), request.name))
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


@dataclass
class _Rows:
    """The rows of a batch that are still being written."""

    requests: list[Request]
    limits: torch.Tensor
    """Tokens that each row may write, int64 [rows]."""
    mask: torch.Tensor
    """1 on prompt and future tokens, 0 on padding, int64 [rows, prompt + new]."""
    lengths: torch.Tensor
    """Tokens of each prompt, int64 [rows]: where its next position continues."""
    streams: Streams
    ids: list[list[int]]

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all other rows, int64 [kept] on the model's device."""
        order = rows.tolist()
        self.requests = [self.requests[row] for row in order]
        self.ids = [self.ids[row] for row in order]
        self.limits, self.mask, self.lengths = (
            values[rows] for values in (self.limits, self.mask, self.lengths)
        )
        self.streams.keep(rows)


@dataclass
class _Run:
    """State of one call of `decode`."""

    network: Any
    sampling: Sampling
    time_left: TimeLeft | None
    progress: Progress
    replies: list[Reply] = field(default_factory=list)
    tokens: int = 0
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.device = next(self.network.parameters()).device
        self.ends = torch.tensor(sorted(self.sampling.end_ids), device=self.device)
        accepted = inspect.signature(self.network.forward).parameters
        self.last_only = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        # transformers 5 renamed the cache's argument and result alike.
        self.cache_name = "cache" if "cache" in accepted else "past_key_values"
        self.context = int(getattr(self.network.config, "max_position_embeddings", 0) or 2**31)

    def has_time(self) -> bool:
        return self.time_left is None or self.time_left() > 0

    def rate(self) -> str:
        return f"{self.tokens / max(time.monotonic() - self.started, 1e-9):,.0f} tokens/s"

    def finish(self, request: Request, ids: list[int], truncated: bool) -> None:
        self.replies.append(
            Reply(request.problem, request.sample, tuple(ids), truncated, request.variant)
        )
        self.progress.add(1, self.rate())

    def decode_batch(self, requests: list[Request]) -> None:
        """Decode a batch; when the device's memory does not hold it, decode its halves."""
        too_long = [request for request in requests if len(request.prompt) >= self.context]
        for request in too_long:
            self.finish(request, [], truncated=True)
        requests = [request for request in requests if len(request.prompt) < self.context]
        if not requests:
            return
        before = len(self.replies)
        try:
            self._decode_rows(requests)
            return
        except torch.OutOfMemoryError:
            if len(requests) == 1:
                raise UserError(
                    f"one reply of {len(requests[0].prompt)} + {self.sampling.max_new_tokens} "
                    "tokens does not fit the device's memory",
                    "Lower `evaluation.max_new_tokens`.",
                ) from None
        torch.cuda.empty_cache()
        # A batch is of one variant.
        done = {(reply.problem, reply.sample) for reply in self.replies[before:]}
        rest = [request for request in requests if (request.problem, request.sample) not in done]
        middle = (len(rest) + 1) // 2
        for half in (rest[:middle], rest[middle:]):
            if self.has_time():
                self.decode_batch(half)

    @torch.inference_mode()
    def _decode_rows(self, requests: list[Request]) -> None:
        rows, tokens, width = self._begin(requests)
        cache = None
        positions = (rows.mask[:, :width].cumsum(-1) - 1).clamp(min=0)
        for step in range(int(rows.limits.max())):
            output = self.network(
                input_ids=tokens,
                attention_mask=rows.mask[:, : width + step],
                position_ids=positions,
                use_cache=True,
                **{self.cache_name: cache},
                **self.last_only,
            )
            cache, logits = getattr(output, self.cache_name), output.logits[:, -1]
            if step == 0:
                _require_finite(logits)
            chosen = self._choose(logits, rows)
            going = self._retire(rows, chosen, step)
            if going is not None:
                if not len(going):
                    return
                _select_rows(cache, going)
                rows.keep(going)
                chosen = chosen[going]
            if not self.has_time():
                return
            tokens, positions = chosen.unsqueeze(-1), (rows.lengths + step).unsqueeze(-1)

    def _begin(self, requests: list[Request]) -> tuple[_Rows, torch.Tensor, int]:
        """The rows of a batch, its padded prompts [rows, width], and that width."""
        width = max(len(request.prompt) for request in requests)
        longest = self.sampling.max_new_tokens
        padded = [
            [self.sampling.pad_id] * (width - len(request.prompt)) + list(request.prompt)
            for request in requests
        ]
        lengths = torch.tensor([len(request.prompt) for request in requests], device=self.device)
        places = torch.arange(width + longest, device=self.device)
        rows = _Rows(
            requests=list(requests),
            limits=(self.context - lengths).clamp(max=longest),
            mask=(places >= (width - lengths).unsqueeze(-1)).long(),
            lengths=lengths,
            streams=Streams(
                self.sampling.seed, [request.name for request in requests], self.device
            ),
            ids=[[] for _ in requests],
        )
        return rows, torch.tensor(padded, device=self.device), width

    def _choose(self, logits: torch.Tensor, rows: _Rows) -> torch.Tensor:
        greedy = self.sampling.temperature == 0
        uniforms = None if greedy else rows.streams.next()
        return choose_tokens(logits, uniforms, self.sampling.temperature, self.sampling.top_p)

    def _retire(self, rows: _Rows, chosen: torch.Tensor, step: int) -> torch.Tensor | None:
        """Take over the chosen tokens and hand in what has ended.

        Returns:
            Indices of the rows that go on, or None when all do.
        """
        for ids, token in zip(rows.ids, chosen.tolist(), strict=True):
            ids.append(token)
        self.tokens += len(rows.ids)
        stopped = torch.isin(chosen, self.ends)
        ended = stopped | (rows.limits <= step + 1)
        self.progress.add(0, self.rate())
        if not bool(ended.any()):
            return None
        for row in ended.nonzero().flatten().tolist():
            self.finish(rows.requests[row], rows.ids[row], truncated=not bool(stopped[row]))
        return (~ended).nonzero().flatten()


def _require_finite(logits: torch.Tensor) -> None:
    if not bool(torch.isfinite(logits).all()):
        raise UserError(
            f"the base gives logits that are not finite in {logits.dtype}",
            "Set `train.precision` to bfloat16 or float32.",
        )


def _select_rows(cache: Any, rows: torch.Tensor) -> None:
    """Shrink the cache to these rows; every generation of transformers has one of the two."""
    select = getattr(cache, "batch_select_indices", None) or cache.reorder_cache
    select(rows)
