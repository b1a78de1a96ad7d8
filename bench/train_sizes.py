"""Widths of the models of bench.train, and for which of them a folder was made. No torch."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pipeline.base.artifacts import read_json, write_json

LINEARS = (
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
)  # fmt: skip
"""The seven linear layers of a decoder layer."""
TARGETS = tuple(name.rpartition(".")[2] for name in LINEARS)
"""The same, as PEFT's `target_modules`."""


@dataclass(frozen=True)
class Sizes:
    """Widths of a Qwen3 model."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int

    @property
    def queries(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_dim

    def linears(self) -> dict[str, tuple[int, int]]:
        """Name → (out, in) of the linear layers of one decoder layer."""
        keys, hidden, wide = self.kv_heads * self.head_dim, self.hidden, self.intermediate
        shapes = [(self.queries, hidden), (keys, hidden), (keys, hidden), (hidden, self.queries)]
        shapes += [(wide, hidden), (wide, hidden), (hidden, wide)]
        return dict(zip(LINEARS, shapes, strict=True))


QWEN3_14B = Sizes(40, 5120, 17_408, 40, 8, 128, 151_936)
TINY = Sizes(2, 128, 256, 2, 1, 64, 512)


@dataclass(frozen=True)
class Models:
    """What one folder of bench.train is about."""

    base: Sizes
    check: Sizes
    """Of the loss check: the same widths, fewer layers."""
    rank: int


def models_of(*, tiny: bool, layers: int | None, check_layers: int, rank: int) -> Models:
    """The models that a command line asks for."""
    whole = TINY if tiny else QWEN3_14B
    base = replace(whole, layers=layers or whole.layers)
    return Models(base, replace(base, layers=min(check_layers, base.layers)), rank)


def claim(out: Path, models: Models) -> None:
    """Make `out` the folder of these models; what others left there is deleted."""
    marker, wanted = out / "sizes.json", asdict(models)
    if marker.is_file() and read_json(marker) != wanted:
        for name in ("base", "check-base", "first-adapter", "results", "data"):
            shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    write_json(marker, wanted)


def read_models(out: Path) -> Models:
    """What `claim` wrote."""
    tree = read_json(out / "sizes.json")
    return Models(Sizes(**tree["base"]), Sizes(**tree["check"]), int(tree["rank"]))
