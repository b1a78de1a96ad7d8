"""Say what is wrong with a training run; not a stage.

    python -m pipeline.diagnose runs/<key>            a run's folder, ours or another trainer's
    python -m pipeline.diagnose --log train.log --config train.yaml --profile memory.json

Reads those files alone; writes work/diagnose.json (--out) and a page of the same name
that ends in .md. `make diagnose` runs it. docs/diagnosis.md explains the codes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pipeline.base.artifacts import user_path, write_json, write_text
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_OK, UserError
from pipeline.hardware.doctor.diagnosis import diagnose
from pipeline.hardware.doctor.files import read_file
from pipeline.hardware.doctor.folder import read_folder
from pipeline.hardware.doctor.page import draw
from pipeline.hardware.doctor.record import Record

OUT = "work/diagnose.json"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.diagnose", description="Say what is wrong with a training run."
    )
    parser.add_argument("run", nargs="?", metavar="FOLDER", help="a run's folder")
    parser.add_argument("--config", metavar="FILE", help="the trainer's settings (YAML or JSON)")
    parser.add_argument("--profile", metavar="FILE", help="what was measured (JSON)")
    parser.add_argument("--log", metavar="FILE", help="a log, trainer_state.json or CSV")
    parser.add_argument("--out", default=OUT, metavar="FILE", help=f"the JSON file ({OUT})")
    return parser.parse_args(arguments)


def read_all(chosen: argparse.Namespace) -> Record:
    """Everything that the command line names.

    Raises:
        UserError: nothing is named, or it cannot be read.
    """
    files = [name for name in (chosen.config, chosen.profile, chosen.log) if name]
    if not chosen.run and not files:
        raise UserError("no run to diagnose", "Name a folder (RUN=), or CONFIG=, PROFILE=, LOG=.")
    record = Record()
    if chosen.run:
        folder = user_path(chosen.run)
        if folder.is_dir():
            record = read_folder(folder)
        else:
            read_file(record, folder, folder.name)
    for name in files:
        path = user_path(name)
        read_file(record, path, path.name)
    return record


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 0 whatever the diagnosis is."""
    chosen = parse(arguments)
    try:
        found = diagnose(read_all(chosen))
        out = user_path(chosen.out)
        page = draw(found)
        try:
            write_json(out, found.as_json())
            write_text(out.with_suffix(".md"), page)
        except OSError as error:
            raise UserError(
                f"{out}: cannot be written ({error.strerror})", "Name another file with --out."
            ) from None
    except UserError as error:
        print(f"diagnose: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    print(page, end="")
    print(f"\nThe same as data: {out}")
    return EXIT_OK


if __name__ == "__main__":
    raise SystemExit(main())
