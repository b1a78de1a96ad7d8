"""Put the verified adapter in place and close the job: `python -m pipeline.publish`.

Not a DVC stage: `adapter/` and run_summary.json must outlive every `dvc repro`.
Reads work/export/, work/verify/contract.json, work/train/train.json, the two
scores.json and runs/clock.json; writes adapter/ and run_summary.json. When the
DAG did not reach a verified export, it mends and keeps the adapter of the last
checkpoint. With `--unfinished`, which train.sh passes when `dvc repro` failed, the
job's clock stays open. Exit code 0: a usable adapter is in place.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pipeline.base.budget import CLOCK_FILE, finish_session, open_budget
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_OK, UserError
from pipeline.base.params import Params, load_params
from pipeline.base.progress import duration
from pipeline.release.case import Case
from pipeline.release.contract import STATIC_RULES, faults, hashes, judge
from pipeline.release.finish import EXPORTED, RECORDS, final_summary, score_line, unfinished
from pipeline.release.publish import publish, published_summary, read_json_or_none, recover
from pipeline.release.run_summary import ADAPTER, SUMMARY_FILE, Summary

ROOT = Path()
SCORES = {"base": Path("work/baseline/scores.json"), "adapter": Path("work/evaluate/scores.json")}
RESULTS = Path("results.md")


def elapsed_seconds(hours: float) -> float:
    """Seconds that all sessions of the job used; a finished job's clock stands."""
    clock = read_json_or_none(ROOT / CLOCK_FILE)
    if clock is None or clock["finished"]:
        return finish_session(ROOT)
    budget = open_budget(ROOT, hours)
    budget.beat(force=True)
    return budget.used()


def keep_partial(why: str, params: Params) -> int:
    """Say what is in place when the run did not come to its end."""
    print(f"publish: not complete: {why}", file=sys.stderr)
    summary = published_summary(ROOT)
    if summary is None:
        print("publish: no adapter yet. Run `make train` again: it resumes.", file=sys.stderr)
        return EXIT_FAILED
    base = read_json_or_none(RECORDS["base"])
    if base is not None and summary["base_fingerprint"] == base["fingerprint"]:
        case = Case(ROOT / ADAPTER, Path(base["path"]), params.verify, summary_required=True)
        broken = faults(judge(case, STATIC_RULES))
        if broken:
            print(f"publish: {ADAPTER}/ is broken: {broken[0].detail}", file=sys.stderr)
            return EXIT_FAILED
    print(
        f"{ADAPTER}/ holds the {summary['status']} adapter of run {summary['run_key']}, "
        f"step {summary['step']} of {summary['steps_planned']} ({SUMMARY_FILE})"
    )
    return EXIT_OK


def put_in_place(train: dict[str, Any], params: Params) -> Summary:
    """Publish the finished adapter, once: its time is not counted again by a second run."""
    published = published_summary(ROOT)
    if published is not None and published["status"] == "complete":
        same_files = published["adapter"]["files"] == hashes(EXPORTED)
        if same_files and published["run_key"] == train["run_key"]:
            return published
    summary = final_summary(train, elapsed_seconds(params.budget.hours))
    publish(ROOT, EXPORTED, summary, "complete")
    return summary


def complete(train: dict[str, Any], params: Params, close: bool) -> int:
    """Publish the finished adapter, close the clock, say how good it is."""
    summary = put_in_place(train, params)
    if close:
        finish_session(ROOT)
    took = duration(summary["total_elapsed_seconds"])
    print(f"{ADAPTER}/ holds the finished adapter of run {train['run_key']} ({took} in all)")
    for label, path in SCORES.items():
        scores = read_json_or_none(path)
        if scores is not None:
            print(score_line(label, scores))
    if RESULTS.is_file():
        print(f"Details: {RESULTS}")
    return EXIT_OK


def main(arguments: list[str]) -> int:
    """Publish or keep; 0 when a usable adapter is in place, else 1 (2: bad settings)."""
    try:
        params = load_params(ROOT / "params.yaml")
        mended = recover(ROOT)
        if mended:
            print(f"publish: {mended}")
        records = {name: read_json_or_none(path) for name, path in RECORDS.items()}
        why = unfinished(records)
        if why:
            return keep_partial(why, params)
        return complete(records["train"], params, close="--unfinished" not in arguments)
    except UserError as error:
        print(f"publish: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
