"""What a small card leaves to the host: inputs of recomputed layers, and the embedding.

Used by compiled.py where the plan says so. A recomputed layer keeps only its input; here
that input waits in pinned host memory. It travels on a stream of its own, out while later
layers compute, and back while the layer after it is being differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import nn


class HostStore:
    """Tensors of one device that wait on the host, by the number of their layer.

    Args:
        device: where they come from and return to; a CPU keeps them as they are.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.host: dict[int, torch.Tensor] = {}
        self.waiting: dict[int, torch.Tensor] = {}
        """On their way back."""

    def put(self, number: int, tensor: torch.Tensor) -> None:
        """Start to move a layer's input to the host."""
        if self.stream is None:
            self.host[number] = tensor
            return
        kept = self.host.get(number)
        if kept is None or kept.shape != tensor.shape or kept.dtype != tensor.dtype:
            kept = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self.host[number] = kept
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            kept.copy_(tensor, non_blocking=True)
        # The allocator must not hand its memory on before the copy is done.
        tensor.record_stream(self.stream)

    def get(self, number: int) -> torch.Tensor:
        """A layer's input on the device; that of the layer before it is sent for."""
        if self.stream is None:
            return self.host[number]
        self._fetch(number)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        tensor = self.waiting.pop(number)
        tensor.record_stream(torch.cuda.current_stream(self.device))
        if number - 1 in self.host:
            self._fetch(number - 1)
        return tensor

    def _fetch(self, number: int) -> None:
        if number in self.waiting or self.stream is None:
            return
        with torch.cuda.stream(self.stream):
            self.waiting[number] = self.host[number].to(self.device, non_blocking=True)


class _Recomputed(torch.autograd.Function):
    """A layer without memory: forward without a graph, and once more before its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        anchor: torch.Tensor,
        run: Callable[[torch.Tensor], torch.Tensor],
        store: HostStore,
        number: int,
    ) -> torch.Tensor:
        ctx.run, ctx.store, ctx.number = run, store, number
        ctx.needs_input = hidden.requires_grad
        ctx.random = _random_state(store.device)
        ctx.autocast = _autocast_of(store.device)
        out = run(hidden)
        store.put(number, hidden.detach())
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden = ctx.store.get(ctx.number).detach().requires_grad_(ctx.needs_input)
        now = _random_state(ctx.store.device)
        _set_random_state(ctx.store.device, ctx.random)
        with torch.enable_grad(), torch.autocast(ctx.store.device.type, **ctx.autocast):
            out = ctx.run(hidden)
        _set_random_state(ctx.store.device, now)
        torch.autograd.backward(out, slopes[0])
        return hidden.grad, None, None, None, None


def _random_state(device: torch.device) -> torch.Tensor:
    if device.type == "cuda":
        return torch.cuda.get_rng_state(device)
    return torch.get_rng_state()


def _set_random_state(device: torch.device, state: torch.Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def _autocast_of(device: torch.device) -> dict[str, Any]:
    kind = device.type
    return {"enabled": torch.is_autocast_enabled(kind), "dtype": torch.get_autocast_dtype(kind)}


def recompute_from_host(layers: list[Any], device: torch.device) -> None:
    """Make these layers keep nothing but their input, and that on the host.

    Each must hold a trainable parameter: autograd asks for it, since the first
    layer's input takes no gradient.

    Args:
        layers: transformers' decoder layers, in order; already told to recompute.
    """
    store = HostStore(device)
    for number, layer in enumerate(layers):
        anchor = next(p for p in layer.parameters() if p.requires_grad)
        layer._gradient_checkpointing_func = _checkpoint(anchor, store, number)


def _checkpoint(anchor: torch.Tensor, store: HostStore, number: int) -> Callable[..., Any]:
    function: Any = _Recomputed

    def call(run: Callable[..., Any], hidden: torch.Tensor, *rest: Any) -> Any:
        def alone(states: torch.Tensor) -> torch.Tensor:
            out = run(states, *rest)
            return cast(torch.Tensor, out[0] if isinstance(out, tuple) else out)

        return function.apply(hidden, anchor, alone, store, number)

    return call


class HostEmbedding(nn.Module):
    """A frozen embedding in host memory; its rows travel to the device as they are needed.

    Args:
        source: the embedding as loaded; its weight is moved.
        device: of what is returned.
    """

    def __init__(self, source: nn.Embedding, device: torch.device) -> None:
        super().__init__()
        # Not a parameter: nothing may move it back or count it as the device's.
        self.table = source.weight.detach().cpu()
        self.device = device

    @property
    def weight(self) -> torch.Tensor:
        """[vocabulary, hidden], on the host."""
        return self.table

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 [..., T] → [..., T, hidden] on the device."""
        rows = nn.functional.embedding(tokens.cpu(), self.table)
        return rows.to(self.device, non_blocking=True)
