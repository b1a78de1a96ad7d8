"""Stage verify: the contract of the adapter, judged and written down.

Reads work/export/adapter/, work/prepare/base.json and work/train/train.json;
writes work/verify/contract.json; exits with 1 when a term is broken. Run it with
`dvc repro verify` or `python -m pipeline.verify`. By hand, without the DAG:
`python -m pipeline.verify --published` judges adapter/ and run_summary.json,
`python -m pipeline.verify --adapter DIR [--base DIR] [--json FILE]` any adapter. With
`--static` neither torch nor the base's weights are read.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import read_json, write_json
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_OK, UserError
from pipeline.base.params import Params, VerifyParams, load_params
from pipeline.base.stage import run_stage
from pipeline.release.case import BASE_RECORD, Case, recorded_base
from pipeline.release.contract import table, verify_adapter
from pipeline.release.publish import published_summary
from pipeline.release.run_summary import ADAPTER, SUMMARY_FILE

TRAIN_RECORD = Path("work/train/train.json")
EXPORTED = Path("work/export/adapter")
OUT = Path("work/verify/contract.json")


def trained_on() -> dict[str, str]:
    """File → fingerprint of the base that it says training saw."""
    found = {str(BASE_RECORD): str(read_json(BASE_RECORD)["fingerprint"])}
    if TRAIN_RECORD.is_file():
        found[str(TRAIN_RECORD)] = str(read_json(TRAIN_RECORD)["base_fingerprint"])
    return found


def main(params: Params) -> None:
    """Judge the exported adapter; a broken term ends the stage with exit code 1."""
    base = Path(read_json(BASE_RECORD)["path"])
    case = Case(EXPORTED, base, params.verify, links_allowed=True, trained_on=trained_on())
    if not report(verify_adapter(case), OUT):
        raise SystemExit(EXIT_FAILED)


def report(contract: dict[str, Any], path: Path | None) -> bool:
    """Print the table, write the JSON, and say whether the contract is kept."""
    if path is not None:
        write_json(path, contract)
    print(table(contract), flush=True)
    return bool(contract["passed"])


def parse(arguments: list[str]) -> argparse.Namespace:
    """Command line of the forms that run outside the DAG."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.verify", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--adapter", type=Path, help="folder of any adapter")
    which.add_argument("--published", action="store_true", help="adapter/ and run_summary.json")
    parser.add_argument("--base", type=Path, help="folder of its base (default: this project's)")
    parser.add_argument("--static", action="store_true", help="read headers only, load nothing")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    return parser.parse_args(arguments)


def chosen_case(options: argparse.Namespace, limits: VerifyParams) -> Case:
    """The case that the command line asks for."""
    base = options.base if options.base is not None else recorded_base()
    for what, folder in (("adapter", options.adapter), ("base", base)):
        if folder is not None and not folder.exists():
            raise UserError(f"{what} {folder}: no such folder", "Correct the path.")
    if options.published:
        summary = published_summary(Path())
        seen = {SUMMARY_FILE: summary["base_fingerprint"]} if summary else None
        return Case(Path(ADAPTER), base, limits, trained_on=seen, summary_required=True)
    return Case(options.adapter, base, limits)


def command(arguments: list[str]) -> int:
    """Judge outside the DAG: exit code 0 kept, 1 broken, 2 nothing to judge."""
    try:
        options = parse(arguments)
        case = chosen_case(options, load_params(Path("params.yaml")).verify)
        contract = verify_adapter(case, loading=not options.static)
        return EXIT_OK if report(contract, options.json) else EXIT_FAILED
    except UserError as error:
        print(f"verify: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT


if __name__ == "__main__":
    if sys.argv[1:]:
        raise SystemExit(command(sys.argv[1:]))
    raise SystemExit(run_stage("verify", main))
