"""The end of a run: whether what was exported may be published, and its summary.

Reads the records that train, export and verify left under work/, and the
checkpoints under runs/; writes nothing. Used by `python -m pipeline.publish`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.base.adapter_format import WEIGHTS_FILE
from pipeline.base.artifacts import is_complete, sha256_file
from pipeline.release.contract import hashes
from pipeline.release.run_summary import Summary

EXPORTED = Path("work/export/adapter")
TRAINED = Path("work/train/adapter")
RECORDS = {
    "train": Path("work/train/train.json"),
    "export": Path("work/export/export.json"),
    "contract": Path("work/verify/contract.json"),
    "base": Path("work/prepare/base.json"),
}


def unfinished(records: dict[str, Any]) -> str | None:
    """Why the exported adapter is not the verified end of this training; None if it is."""
    for name, path in RECORDS.items():
        if records[name] is None:
            return f"{path} is missing"
    if not records["contract"]["passed"]:
        broken = [c["id"] for c in records["contract"]["checks"] if c["passed"] is False]
        return f"the contract is broken ({', '.join(broken)}), see {RECORDS['contract']}"
    if records["contract"]["files"] != hashes(EXPORTED):
        return f"{EXPORTED} is not what was verified"
    if records["export"]["source_sha256"] != sha256_file(TRAINED / WEIGHTS_FILE):
        return f"{EXPORTED} is not an export of {TRAINED}"
    return None


def checkpoint_of(run_key: str) -> str:
    """The newest complete checkpoint of a run; its final weights when none is left."""
    found = [path for path in (Path("runs") / run_key).glob("checkpoint-*") if is_complete(path)]
    if not found:
        return str(TRAINED.parent)
    return str(max(found, key=lambda path: int(path.name.rpartition("-")[2])))


def final_summary(train: dict[str, Any], seconds: float) -> Summary:
    """run_summary.json of a finished run, but what the publisher adds."""
    return {
        "method_name": train["method_name"],
        "devices": train["devices"],
        "total_elapsed_seconds": round(seconds, 3),
        "checkpoint_path": checkpoint_of(train["run_key"]),
        "run_key": train["run_key"],
        "step": train["steps"],
        "steps_planned": train["steps_planned"],
        "ended_by": train["ended_by"],
        "base_fingerprint": train["base_fingerprint"],
        "attempts": train["attempts"],
        "contract": "passed",
    }


def score_line(label: str, scores: dict[str, Any]) -> str:
    """One line of accuracy: pass@1 and best-of-k with their 95 % intervals."""
    if not scores["problems"]:
        return f"  {label:<8} no problem was answered in the time there was"
    parts = []
    for name, key in (("pass@1", "pass_at_1"), (f"best of {scores['k']}", "best_of_k")):
        low, high = scores[f"{key}_interval"]
        parts.append(f"{name} {scores[key]:.1%} [{low:.1%}, {high:.1%}]")
    return f"  {label:<8} {' · '.join(parts)} on {scores['problems']} problems"
