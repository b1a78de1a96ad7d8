"""Attention backends against an eager float64 reference, forward and backward.

Run by the training worker before the first step, on the device and with the head
sizes of the run (`verified`); a backend whose output or gradient is wrong or not
finite is left out, with the reason. Takes seconds, most of them for compiling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite

import torch

from pipeline.base.errors import UserError
from pipeline.learning.attention.dense import Triple
from pipeline.learning.attention.entry import attend_documents, packing_of
from pipeline.learning.attention.equal import MULTIPLE
from pipeline.learning.attention.table import BACKENDS, Choice

TOKENS = 2205
"""Of each checked row: no multiple of 128, and the same for all, so that one compilation fits."""
EXTREME = 30.0
"""Factor on queries that makes nearly all rows of weights one-hot."""
LIMITS = {
    torch.float64: 1e-12,
    torch.float32: 5e-4,
    torch.float16: 5e-3,
    torch.bfloat16: 4e-2,
}
"""Largest error taken for rounding, as a share of the largest entry of a document. Right
kernels were seen to reach 1.4e-5, 1.3e-3 and 1.0e-2 in the last three."""
Quad = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """One row of documents to be attended."""

    name: str
    lengths: tuple[int, ...]
    factor: float = 1.0
    """On queries."""
    zeros: bool = False
    """Set the first document, and every third token after it, to zero."""


@dataclass(frozen=True)
class Verdict:
    """What was found of one backend."""

    backend: str
    error: float
    """Largest over all cases, as a share of the largest entry; inf where it failed."""
    reason: str | None
    """Why it is not to be used, or None."""


def residues() -> Iterator[tuple[int, ...]]:
    """Rows of `TOKENS` tokens in which each length modulo 128 occurs, below and above 128."""
    for group in range(8):
        lengths = [(r or 128) + 128 * (r // 8 % 2) for r in range(group, 128, 8)]
        yield (*lengths, TOKENS - sum(lengths))


def cases_for(backend: str) -> list[Case]:
    """Rows that this backend takes: every residue, one document, extreme and zero rows."""
    mixed: tuple[int, ...] = (257, 64, 1, 1000, 129, TOKENS - 1451)
    rows = [*residues(), (TOKENS,)]
    if not BACKENDS[backend].takes(mixed):
        mixed = (3 * MULTIPLE,) * 5
        rows = [mixed, (MULTIPLE,) * 15, (15 * MULTIPLE,)]
    return [
        *(Case(f"{len(row)} documents, the first of {row[0]}", row) for row in rows),
        Case("extreme scores", mixed, EXTREME),
        Case("zero rows", mixed, zeros=True),
    ]


def make_inputs(
    case: Case, heads: int, kv_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device
) -> Quad:
    """Query, key, value [1, heads, T, head_dim] as projections leave them, and a gradient of
    the output [1, T, heads, head_dim]."""
    generator = torch.Generator().manual_seed(sum(case.lengths) + len(case.lengths))
    tokens = sum(case.lengths)

    def normal(count: int, factor: float = 1.0) -> torch.Tensor:
        made = torch.randn(1, tokens, count, head_dim, generator=generator) * factor
        if case.zeros:
            made[:, : case.lengths[0]] = 0
            made[:, ::3] = 0
        return made.to(device, dtype)

    q, k, v = normal(heads, case.factor), normal(kv_heads), normal(kv_heads)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), normal(heads)


def gradients(out: torch.Tensor, inputs: Sequence[torch.Tensor], grad: torch.Tensor) -> Quad:
    """The output and the gradients of query, key and value, all [1, T, heads, head_dim]."""
    dq, dk, dv = torch.autograd.grad(out, list(inputs), grad)
    return out.detach(), dq.transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2)


@torch.enable_grad()
def reference(inputs: Triple, grad: torch.Tensor, lengths: tuple[int, ...]) -> Quad:
    """Softmax of masked scores, document by document, written out in float64."""
    q, k, v = (x.detach().double().requires_grad_() for x in inputs)
    groups = q.shape[1] // k.shape[1]
    keys, values = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    parts = []
    for part, key, value in zip(*(x.split(lengths, 2) for x in (q, keys, values)), strict=True):
        scores = part @ key.transpose(-2, -1) * q.shape[-1] ** -0.5
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        parts.append(scores.masked_fill(future, -inf).softmax(-1) @ value)
    return gradients(torch.cat(parts, 2).transpose(1, 2), (q, k, v), grad.double())


@torch.enable_grad()
def by_backend(backend: str, inputs: Triple, grad: torch.Tensor, lengths: tuple[int, ...]) -> Quad:
    """The same through the function that transformers calls, with one backend."""
    q, k, v = (x.detach().requires_grad_() for x in inputs)
    packing = packing_of(lengths, q.device, (backend, "sdpa"))
    module = torch.nn.Identity()
    out, _ = attend_documents(module, q, k, v, None, document_lengths=packing)
    return gradients(out, (q, k, v), grad)


def error_of(found: Quad, wanted: Quad, lengths: tuple[int, ...]) -> float:
    """Largest error over output and gradients, as a share of the largest entry of its document.

    A document whose entries are small beside the others' is measured against those.
    Infinite where anything is not finite.
    """
    worst = 0.0
    for ours, exact in zip(found, wanted, strict=True):
        if not bool(torch.isfinite(ours).all()):
            return inf
        usual = exact.square().mean().sqrt()
        off = (ours.double() - exact).abs()
        shares = [
            part.max() / torch.maximum(whole.abs().max(), usual)
            for part, whole in zip(off.split(lengths, 1), exact.split(lengths, 1), strict=True)
        ]
        worst = max(worst, float(torch.stack(shares).max()))
    return worst


def verify_backend(
    backend: str,
    device: torch.device,
    dtype: torch.dtype,
    *,
    head_dim: int,
    heads: int = 4,
    kv_heads: int = 2,
    cases: Sequence[Case] | None = None,
) -> Verdict:
    """Compare one backend with the reference.

    Args:
        heads: of queries; few are enough, since each is computed alike.
        kv_heads: of keys and values; fewer where the model groups them.
        cases: what to compare on; `cases_for` the backend by default.
    """
    worst = 0.0
    for case in cases_for(backend) if cases is None else cases:
        *inputs, grad = make_inputs(case, heads, kv_heads, head_dim, dtype, device)
        q, k, v = inputs
        try:
            found = by_backend(backend, (q, k, v), grad, case.lengths)
        except RuntimeError as error:
            # What torch raises where a kernel or its compiler refuses.
            first = (str(error).strip() or repr(error)).splitlines()[0]
            return Verdict(backend, inf, f"failed on {case.name}: {first}")
        exact = reference((q, k, v), grad, case.lengths)
        worst = max(worst, error_of(found, exact, case.lengths))
        if worst > LIMITS[dtype]:
            wrong = f"off by {worst:.2g}" if isfinite(worst) else "not finite"
            return Verdict(backend, worst, f"is {wrong} on {case.name}")
    return Verdict(backend, worst, None)


def verified(
    choice: Choice,
    device: torch.device,
    dtype: torch.dtype,
    *,
    head_dim: int,
    grouped: bool,
) -> tuple[Choice, tuple[Verdict, ...]]:
    """The backends of a choice that compute rightly here, and what was found of each.

    Stops at the first one of the operator that takes every row: what comes after
    is never called.

    Args:
        grouped: whether several query heads share a key head.

    Raises:
        UserError: none is right.
    """
    names: list[str] = []
    verdicts: list[Verdict] = []
    for name in choice.names:
        verdict = verify_backend(
            name, device, dtype, head_dim=head_dim, heads=4, kv_heads=2 if grouped else 4
        )
        verdicts.append(verdict)
        if verdict.reason is not None:
            continue
        names.append(name)
        if BACKENDS[name].kernel is not None and BACKENDS[name].takes((1, 2)):
            break
    else:
        raise UserError(
            f"train.attention: no backend computes rightly on this device: "
            f"{'; '.join(f'{v.backend} {v.reason}' for v in verdicts if v.reason)}",
            "Set train.attention to `sdpa`, or train on another device or torch version.",
        )
    wrong = tuple((v.backend, v.reason) for v in verdicts if v.reason is not None)
    return Choice(tuple(names), choice.refused + wrong), tuple(verdicts)
