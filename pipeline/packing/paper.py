"""A curriculum planned on paper: from sizes alone, before there are any data.

    python -m pipeline.packing.paper sizes.yaml

Reads a file of sizes (docs/curriculum.md has one) and prints, as Markdown tables and
as JSON, what the run would be: steps, batches and tokens of every stage, passes over
every tier, band and source. Bins are taken to be full. Slots, borders and batches come
from the functions that training itself uses.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.base.artifacts import dump_json
from pipeline.base.curriculum import Bucket, Curriculum, Stage
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_OK, UserError
from pipeline.base.params import Section
from pipeline.base.stage_table import (
    StageRow,
    largest_micro_batch,
    sequences_per_step,
    stage_rows,
)

Cell = tuple[str, int]
"""Tier and band."""

Sums = dict[str, tuple[float, float]]
"""Label → tokens held, tokens handed out."""


class PaperStage(Section):
    """One stage as it is wished for."""

    sequence_tokens: int = Field(ge=1)
    """Length of its sequences; a multiple of every band up to it."""
    tokens: float = Field(gt=0)
    """Tokens to train in it."""
    tiers: dict[str, float] | None = None
    """Tier → share of its tokens; null takes the tiers as they come."""


class Sizes(Section):
    """The file of sizes: tokens, not examples."""

    tokens_per_step: int = Field(ge=1)
    """Over all GPUs, the same at every stage."""
    gpus: int = Field(ge=1)
    """Ranks; each takes as many sequences."""
    micro_batch_tokens: int = Field(ge=1)
    """Most tokens of one forward pass of one GPU."""
    bands: dict[int, float] = Field(min_length=1)
    """Upper bound of a length band → its tokens in the whole corpus."""
    sources: dict[str, dict[str, float | dict[int, float]]] = Field(min_length=1)
    """Source → tier → its tokens, or band → tokens where the lengths are known; a single
    figure is spread over the bands as the whole corpus is."""
    stages: list[PaperStage] = Field(min_length=1)
    """In their order."""

    def cells(self, source: str) -> dict[Cell, float]:
        """Tier and band → tokens of this source."""
        whole, cells = sum(self.bands.values()), dict[Cell, float]()
        for tier, held in self.sources[source].items():
            spread = held
            if not isinstance(spread, dict):
                spread = {band: spread * part / whole for band, part in self.bands.items()}
            cells |= {(tier, band): tokens for band, tokens in spread.items()}
        return cells


@dataclass(frozen=True)
class Paper:
    """A plan on paper."""

    sizes: Sizes
    rows: list[StageRow]
    tokens_per_step: int
    passes: dict[Cell, float]
    """How often each tier and band is handed out."""


def read_sizes(path: Path) -> Sizes:
    """Read and check a file of sizes.

    Raises:
        UserError: with every fault of the file in one message.
    """
    try:
        tree = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
        return Sizes.model_validate(tree)
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        first = " ".join(str(error).split())
        raise UserError(f"{path}: cannot be read ({first})", "Give a YAML file.") from None
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'the file'}: {one['msg'].lower()}"
            for one in error.errors()
        )
        raise UserError(f"{path}: {faults}", "Correct these; see docs/curriculum.md.") from None


def paper_buckets(sizes: Sizes) -> list[Bucket]:
    """Full bins of every tier and band of all sources together."""
    cells: Counter[Cell] = Counter()
    for source in sizes.sources:
        cells.update(sizes.cells(source))
    buckets, first = [], 0
    for (tier, band), tokens in cells.items():
        bins = round(tokens / band)
        buckets.append(Bucket(tier, band, first, bins, bins, bins * band))
        first += bins
    return buckets


def plan_on_paper(sizes: Sizes) -> Paper:
    """Plan the run.

    Raises:
        UserError: a stage or a band does not divide the longest sequence, or a stage
            wants what no bucket holds.
    """
    longest, buckets = max(one.sequence_tokens for one in sizes.stages), paper_buckets(sizes)
    _require_multiples(
        {one.band for one in buckets} | {one.sequence_tokens for one in sizes.stages}
    )
    in_step = sequences_per_step(sizes.tokens_per_step, longest, sizes.gpus)
    micro = largest_micro_batch(in_step // sizes.gpus, sizes.micro_batch_tokens // longest)
    tokens_per_step = in_step * longest
    wanted = sum(one.tokens for one in sizes.stages)
    total = max(1, round(wanted / tokens_per_step))
    stages = [Stage(one.sequence_tokens, one.tokens / wanted, one.tiers) for one in sizes.stages]
    rows = stage_rows(
        stages,
        total_steps=total,
        tokens_per_step=tokens_per_step,
        micro_batch_tokens=micro * longest,
        ranks=sizes.gpus,
    )
    curriculum = Curriculum(stages, buckets, tokens_per_step, seed=0)
    starts = np.cumsum([0, *(row.steps for row in rows[:-1])]).tolist()
    passes = curriculum.passes(total, starts).tolist()
    cells = [(bucket.tier, bucket.band) for bucket in buckets]
    return Paper(sizes, rows, tokens_per_step, dict(zip(cells, passes, strict=True)))


def _require_multiples(lengths: set[int]) -> None:
    for lower, upper in pairwise(sorted(lengths)):
        if upper % lower:
            raise UserError(
                f"{upper} tokens are no multiple of {lower}",
                "Choose bands and stages that are multiples of each other, such as powers of two.",
            )


def _sums(paper: Paper, label: Callable[[str, Cell], str]) -> Sums:
    """Tokens held and handed out of all that share a label, by source and cell."""
    sums: Sums = {}
    for source in paper.sizes.sources:
        for cell, tokens in paper.sizes.cells(source).items():
            held, handed = sums.get(label(source, cell), (0.0, 0.0))
            sums[label(source, cell)] = (held + tokens, handed + tokens * paper.passes[cell])
    return sums


def as_json(paper: Paper) -> dict[str, Any]:
    """Everything that the tables show."""
    bands = _sums(paper, lambda _, cell: str(cell[1]))
    groups = {
        "tiers": _sums(paper, lambda _, cell: cell[0]),
        "bands": {band: bands[band] for band in sorted(bands, key=int)},
        "sources": _sums(paper, lambda source, _: source),
    }
    figures: dict[str, Any] = {
        "steps": sum(row.steps for row in paper.rows),
        "tokens_per_step": paper.tokens_per_step,
        "tokens": sum(row.tokens for row in paper.rows),
        "stages": [row.to_json() for row in paper.rows],
    }
    for name, sums in groups.items():
        figures[name] = {
            key: {
                "held": round(held),
                "handed_out": round(handed),
                "passes": round(handed / max(1.0, held), 4),
            }
            for key, (held, handed) in sums.items()
        }
    return figures


def as_markdown(paper: Paper) -> str:
    """The tables that a person reads."""
    figures, gpus = as_json(paper), paper.sizes.gpus
    lines = [
        f"| stage | length | batch (at a time × passes × {gpus} GPUs) | tokens wanted ÷ "
        f"{figures['tokens_per_step']:,} | steps | tokens |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for number, (row, wish) in enumerate(zip(paper.rows, paper.sizes.stages, strict=True), 1):
        lines.append(
            f"| {number} | {row.sequence_tokens:,} | {row.sequences_per_step} = "
            f"{row.micro_batch_sequences} × {row.accumulation} × {gpus} | "
            f"{wish.tokens / figures['tokens_per_step']:,.2f} | {row.steps:,} | {row.tokens:,} |"
        )
    wanted = sum(one.tokens for one in paper.sizes.stages) / figures["tokens_per_step"]
    lines.append(f"| all | | | {wanted:,.2f} | {figures['steps']:,} | {figures['tokens']:,} |")
    for name in ("tiers", "bands", "sources"):
        lines += ["", f"| {name[:-1]} | tokens held | tokens handed out | passes |"]
        lines.append("| --- | ---: | ---: | ---: |")
        for key, one in figures[name].items():
            label = f"≤ {int(key):,}" if name == "bands" else key
            lines.append(
                f"| {label} | {one['held']:,} | {one['handed_out']:,} | {one['passes']:.2f} |"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="plan a curriculum from sizes alone")
    parser.add_argument("sizes", type=Path, help="YAML file of sizes")
    try:
        paper = plan_on_paper(read_sizes(parser.parse_args(arguments).sizes))
    except UserError as error:
        print(f"paper: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    print(f"{as_markdown(paper)}\n\n```json\n{dump_json(as_json(paper))}\n```")
    return EXIT_OK


if __name__ == "__main__":
    raise SystemExit(main())
