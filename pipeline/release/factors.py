"""Low-rank updates as arithmetic: join them exactly, or cut them to a rank. No torch.

Pure numpy, called by blend.py for one module at a time. An update is scale·B·A with
A [r, in] and B [out, r].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]


class Update(NamedTuple):
    """One module's part of a blend."""

    factor: float
    """Its weight times the factor that its own config puts on B·A."""
    a: Matrix
    """[r, in]"""
    b: Matrix
    """[out, r]"""


class Joined(NamedTuple):
    """The factors of a sum of updates: the sum is scale·B·A."""

    scale: float
    a: Matrix
    b: Matrix
    error: float
    """Frobenius norm of what was cut away, as a share of that of the exact sum."""


def common_factor(factors: list[float]) -> float:
    """The factor that is left outside B: of equal ones all of it, so that B keeps its bits."""
    return max(factors)


def join(updates: list[Update]) -> Joined:
    """The exact sum: ranks side by side. Σ fᵢ·Bᵢ·Aᵢ = f·[f₁/f·B₁ … fₙ/f·Bₙ]·[A₁; …; Aₙ]."""
    scale = common_factor([update.factor for update in updates])
    a = np.concatenate([update.a for update in updates])
    b = np.concatenate([update.b * np.float32(update.factor / scale) for update in updates], axis=1)
    return Joined(scale, a, b, 0.0)


def cut(updates: list[Update], rank: int) -> Joined:
    """The best update of a rank (Eckart and Young, 1936), its factors of equal size.

    The product is never built: with B = Q₁·R₁ and Aᵀ = Q₂·R₂ it is Q₁·(R₁·R₂ᵀ)·Q₂ᵀ, and the
    middle has as many sides as there are ranks in all. Computed in float64.
    """
    whole = join(updates)
    if whole.a.shape[0] <= rank:
        return whole
    left, of_left = np.linalg.qr(whole.b.astype(np.float64) * whole.scale)
    right, of_right = np.linalg.qr(whole.a.astype(np.float64).T)
    rows, values, columns = np.linalg.svd(of_left @ of_right.T)
    root = np.sqrt(values[:rank])
    total = float(np.linalg.norm(values))
    error = float(np.linalg.norm(values[rank:])) / total if total else 0.0
    return Joined(
        1.0,
        ((right @ columns[:rank].T) * root).T.astype(np.float32),
        ((left @ rows[:, :rank]) * root).astype(np.float32),
        error,
    )
