"""Show packed bins to a person; not a stage.

    python -m pipeline.inspect                  3 bins, evenly spread, and work/inspect.html
    python -m pipeline.inspect --bins 10        10 of them
    python -m pipeline.inspect --bin 4 17       these two

Reads params.yaml, work/prepare/base.json, the base's tokenizer and work/tokenize/; writes
the page. `make inspect` runs it.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from pipeline.base.artifacts import read_json, user_path, writing_text
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_OK, UserError
from pipeline.base.params import load_params
from pipeline.base.tokenizer_files import read_tokenizer_files
from pipeline.packing.page import draw_page
from pipeline.packing.terminal import Pen, draw_bin
from pipeline.packing.view import Bins, BinView, summary

BASE = Path("work/prepare/base.json")
PACKED = Path("work/tokenize")
PAGE = "work/inspect.html"


def open_tokenizer(packed_with: str | None) -> Tokenizer:
    """The base's tokenizer.

    Args:
        packed_with: hash of the tokenizer that the bins were made with.

    Raises:
        UserError: it is another one now, so that the text would be wrong.
    """
    template = load_params(Path("params.yaml")).prompt.template
    files = read_tokenizer_files(Path(read_json(BASE)["path"]), template)
    if files.sha256() != packed_with:
        raise UserError(
            f"{PACKED}: the tokenizer or chat template of {files.base} has changed since",
            "Run `dvc repro tokenize`.",
        )
    return files.tokenizer


def open_bins() -> Bins:
    """The packed bins as they are now."""
    manifest = read_json(PACKED / "manifest.json")
    return Bins(PACKED, open_tokenizer(manifest.get("tokenizer_sha256")))


def wants_colour(refused: bool) -> bool:
    """Whether standard output is a terminal that may be coloured (no-color.org)."""
    return (
        not refused
        and sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


def show(numbers: Sequence[int], bins: Bins, pen: Pen, page: Path, *, full: bool) -> None:
    """Write the page, then print the same bins.

    Raises:
        UserError: the page cannot be written.
    """
    told, drawn = summary(bins), list[str]()

    def views() -> Iterator[BinView]:
        for number in numbers:
            view = bins.view(number)
            drawn.extend(draw_bin(view, pen, full=full))
            yield view

    try:
        with writing_text(page) as stream:
            stream.writelines(draw_page(told, views()))
    except OSError as error:
        raise UserError(
            f"{page}: cannot be written ({error.strerror})", "Name another file with --html."
        ) from None
    print("\n".join([*told, pen.legend(), f"The same as a page: {page}", "", *drawn]))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.inspect", description="Show what training sees, bin by bin."
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--bins", type=int, default=3, metavar="N", help="show N bins, spread")
    which.add_argument("--bin", type=int, nargs="+", metavar="K", help="show these, from 0")
    parser.add_argument("--html", default=PAGE, metavar="PATH", help=f"the page ({PAGE})")
    parser.add_argument("--full", action="store_true", help="leave nothing out in the terminal")
    parser.add_argument("--no-color", action="store_true", help="marks instead of colours")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    chosen = parse(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal of another encoding must not end it.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        bins = open_bins()
        numbers = chosen.bin or bins.spread(chosen.bins)
        pen = Pen(wants_colour(chosen.no_color))
        show(numbers, bins, pen, user_path(chosen.html), full=chosen.full)
        sys.stdout.flush()
    except UserError as error:
        print(f"inspect: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except BrokenPipeError:
        # `| head` has seen enough; Python would complain when it closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_OK


if __name__ == "__main__":
    raise SystemExit(main())
