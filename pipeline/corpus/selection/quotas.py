"""Whole numbers that follow given shares. Pure; called by holdout.py and selection/choice.py."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def largest_remainder(total: int, shares: Sequence[float]) -> list[int]:
    """Split `total` in proportion to `shares`, each part off by less than one.

    Every part gets its rounded-down due; what is left goes to the largest remainders
    (Hamilton's method), ties to the earlier part. All zero if no share is positive.
    """
    exact = [Fraction(share) for share in shares]
    whole = sum(exact)
    if not whole:
        return [0] * len(exact)
    due = [total * share / whole for share in exact]
    parts = [int(one) for one in due]
    order = sorted(range(len(due)), key=lambda place: (parts[place] - due[place], place))
    for place in order[: total - sum(parts)]:
        parts[place] += 1
    return parts


def share_out(total: int, shares: Sequence[float], supply: Sequence[int]) -> list[int]:
    """Split `total` by `shares`, no part above its `supply`.

    What a part cannot supply is split among the others by their shares, again and
    again, so that the sum is `total` or everything that parts with a share can supply.
    """
    parts = [0] * len(supply)
    open_parts = list(range(len(supply)))
    left = total
    while open_parts:
        dues = largest_remainder(left, [shares[place] for place in open_parts])
        short = [place for place, due in zip(open_parts, dues, strict=True) if due >= supply[place]]
        if not short:
            for place, due in zip(open_parts, dues, strict=True):
                parts[place] = due
            break
        for place in short:
            parts[place] = supply[place]
            left -= supply[place]
        open_parts = [place for place in open_parts if place not in short]
    return parts
