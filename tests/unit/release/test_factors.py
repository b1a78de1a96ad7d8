"""Sums of low-rank updates: exact side by side, the best of a rank beyond the limit."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.release.factors import Joined, Update, cut, join


def updates(count: int, rank: int, seed: int = 0) -> list[Update]:
    random = np.random.default_rng(seed)
    return [
        Update(
            0.3 + number,
            random.normal(size=(rank, 24)).astype(np.float32),
            random.normal(size=(32, rank)).astype(np.float32),
        )
        for number in range(count)
    ]


def product(joined: Joined) -> np.ndarray:
    return joined.scale * joined.b.astype(np.float64) @ joined.a


def exact(parts: list[Update]) -> np.ndarray:
    return sum(u.factor * u.b.astype(np.float64) @ u.a for u in parts)


def test_side_by_side_is_the_exact_sum() -> None:
    parts = updates(3, 4)
    joined = join(parts)
    assert (joined.a.shape, joined.b.shape, joined.error) == ((12, 24), (32, 12), 0.0)
    np.testing.assert_allclose(product(joined), exact(parts), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(cut(parts, 12).b, joined.b)


def test_equal_factors_leave_every_bit_of_b() -> None:
    parts = [update._replace(factor=1 / 3) for update in updates(3, 4)]
    joined = join(parts)
    assert joined.scale == 1 / 3
    np.testing.assert_array_equal(joined.b, np.concatenate([u.b for u in parts], axis=1))


def test_a_cut_is_the_best_of_its_rank_and_tells_its_error() -> None:
    parts = updates(3, 4)
    whole = exact(parts)
    left, values, right = np.linalg.svd(whole, full_matrices=False)
    best = left[:, :5] * values[:5] @ right[:5]
    joined = cut(parts, 5)
    assert (joined.a.shape, joined.b.shape) == ((5, 24), (32, 5))
    np.testing.assert_allclose(product(joined), best, rtol=1e-4, atol=1e-4)
    lost = np.linalg.norm(whole - best) / np.linalg.norm(whole)
    assert joined.error == pytest.approx(lost, rel=1e-6)
    assert np.linalg.norm(joined.a) == pytest.approx(np.linalg.norm(joined.b), rel=1e-4)


def test_updates_that_cancel_leave_nothing_to_lose() -> None:
    one = updates(1, 4)[0]
    joined = cut([one, one._replace(b=-one.b)], 4)
    assert joined.error <= 1
    np.testing.assert_allclose(product(joined), 0, atol=1e-5)
    zero = one._replace(b=np.zeros_like(one.b))
    assert cut([zero, zero], 4).error == 0.0
