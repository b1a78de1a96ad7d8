"""Blend adapters into one; not a stage.

    python -m pipeline.blend A --alpha 0.7 --out C              A, closer to the base
    python -m pipeline.blend A B --out C                        the average of both
    python -m pipeline.blend A B --weights 3 1 --out C          three parts of A, one of B

Reads params.yaml (section verify), the adapters and the headers of their base; writes the
folder C, an ordinary adapter. `make blend` runs it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import user_path
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_OK, UserError
from pipeline.base.params import load_params
from pipeline.release.blend import blend, open_sources
from pipeline.release.case import recorded_base
from pipeline.release.tensor_data import CODES


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.blend", description="Blend adapters of one base into one."
    )
    parser.add_argument("adapters", nargs="+", metavar="ADAPTER", help="folders of adapters")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the blend, new")
    parser.add_argument("--weights", type=float, nargs="+", help="one for each (default: equal)")
    parser.add_argument(
        "--alpha", type=float, default=1.0, help="1: as it is; nearer 0: nearer base"
    )
    parser.add_argument("--dtype", choices=CODES, help="of the tensors (default: the first's)")
    parser.add_argument(
        "--base", metavar="DIR", help="folder of the base (default: this project's)"
    )
    return parser.parse_args(arguments)


def describe(made: dict[str, Any], out: Path) -> str:
    """One line on the result."""
    line = f"{out}: rank {made['rank']}, {made['dtype']}, "
    if made["cut_modules"]:
        line += f"{made['cut_modules']} modules cut to that rank, at most "
        line += f"{made['largest_error']:.3%} of an update lost"
    else:
        line += "exact sum"
    if made["max_relative_rounding_error"]:
        line += f"; values rounded by at most {made['max_relative_rounding_error']:.2e}"
    return line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    asked = parse(arguments)
    try:
        folders = [user_path(name) for name in asked.adapters]
        base = user_path(asked.base) if asked.base else recorded_base()
        limits = load_params(Path("params.yaml")).verify
        weights = asked.weights or [1.0] * len(folders)
        sources = open_sources(folders, weights, base, limits)
        out = user_path(asked.out)
        made = blend(sources, out, asked.alpha, limits, CODES.get(asked.dtype))
    except UserError as error:
        print(f"blend: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    print(describe(made, out))
    return EXIT_OK


if __name__ == "__main__":
    raise SystemExit(main())
