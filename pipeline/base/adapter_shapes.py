"""Tensors of one adapted linear layer, by method: which there are, and their shapes.

Pure arithmetic, no torch. The planner counts elements by it, the contract judges
files by it, tests hold it against PEFT 0.9.0's own layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

Shapes = dict[str, tuple[int, ...]]
"""Last part of a tensor's name (adapter_format.PARTS) → its shape."""


def factors(side: int) -> tuple[int, int]:
    """The two factors of a side that lie nearest to each other, the smaller one first.

    What PEFT 0.9.0's LoKr does with `decompose_factor` -1.
    """
    small = next(one for one in range(math.isqrt(side), 0, -1) if side % one == 0)
    return small, side // small


def part_shapes(
    kind: str, rows: int, columns: int, rank: int, *, dora: bool = False, inputs: bool = False
) -> Shapes:
    """Shapes that PEFT 0.9.0 gives the adapter of one linear layer.

    Args:
        kind: `peft_type`.
        rows: outputs of the layer; its weight is [rows, columns].
        columns: inputs of the layer.
        rank: of this layer, patterns counted; blocks of OFT; IA³ has none.
        dora: LoRA with a magnitude.
        inputs: IA³ that scales the inputs.
    """
    if kind == "LORA":
        pair: Shapes = {"lora_A.weight": (rank, columns), "lora_B.weight": (rows, rank)}
        return pair | ({"lora_magnitude_vector": (rows,)} if dora else {})
    if kind == "ADALORA":
        return {"lora_A": (rank, columns), "lora_B": (rows, rank), "lora_E": (rank, 1)}
    if kind == "IA3":
        return {"ia3_l": (1, columns) if inputs else (rows, 1)}
    if kind == "LOHA":
        left, right = (rows, rank), (rank, columns)
        return {"hada_w1_a": left, "hada_w1_b": right, "hada_w2_a": left, "hada_w2_b": right}
    if kind == "LOKR":
        return _kronecker(rows, columns, rank)
    side = math.ceil(rows / rank)
    return {"oft_r": (rank, side, side)}


def _kronecker(rows: int, columns: int, rank: int) -> Shapes:
    """The small factor is whole; the large one is whole too where the rank is not below it."""
    (few_rows, many_rows), (few_columns, many_columns) = factors(rows), factors(columns)
    small: Shapes = {"lokr_w1": (few_rows, few_columns)}
    if rank < max(many_rows, many_columns) / 2:
        return small | {"lokr_w2_a": (many_rows, rank), "lokr_w2_b": (rank, many_columns)}
    return small | {"lokr_w2": (many_rows, many_columns)}


def elements(
    kind: str,
    layers: Mapping[str, tuple[int, int]],
    rank: int,
    *,
    dora: bool = False,
    patterns: Mapping[str, int] | None = None,
    inputs: Iterable[str] = (),
) -> int:
    """Elements of the adapter of several layers.

    Args:
        layers: last part of a layer's name → (inputs, outputs).
        patterns: last part of a name → its rank, where it is not `rank`.
        inputs: names whose inputs IA³ scales.
    """
    own = patterns or {}
    return sum(
        math.prod(shape)
        for name, (columns, rows) in layers.items()
        for shape in part_shapes(
            kind, rows, columns, own.get(name, rank), dora=dora, inputs=name in set(inputs)
        ).values()
    )
