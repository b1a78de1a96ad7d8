"""The longest run that two texts share, and whether there is one of some length.

Called by similarity.py on texts of one character a token; reads and writes nothing. Both
look first for a part that a run must hold, and pass over whatever lacks it.
"""

from __future__ import annotations


def longest_run(one: str, other: str) -> tuple[int, int]:
    """(start in `one`, length) of the first longest run that both texts share."""
    best = start = left = 0
    while left + best < len(one):
        if one[left : left + best + 1] in other:
            best, start = best + 1, left
        elif best > 1 and one[left + best - 1 : left + best + 1] not in other:
            left += best  # no longer run holds these two
        else:
            left += 1
    return start, best


def shares_run(one: str, other: str, size: int) -> bool:
    """Whether two texts share a run of `size` characters.

    Every such run holds one of the blocks of half its size that stand side by side in `one`,
    so that most texts are told apart by these.
    """
    block = (size + 1) // 2
    for start in range(0, len(one) - block + 1, size - block + 1):
        if one[start : start + block] in other:
            first = max(0, start + block - size)
            last = min(start, len(one) - size)
            if any(one[left : left + size] in other for left in range(first, last + 1)):
                return True
    return False
