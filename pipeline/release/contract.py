"""The contract of the adapter: every term, judged and tabled (docs/contract.md).

Reads an adapter folder and its base; writes nothing. The static terms need no
torch; the last one loads the adapter in a child process. Run it with
`python -m pipeline.verify --adapter DIR --base DIR`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.base.adapter_format import ADAPTER_FILES
from pipeline.base.artifacts import read_json, sha256_file
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache, fingerprint
from pipeline.release.base_values import VALUE_RULE
from pipeline.release.case import Broken, Case, Figure, Finding, Rule, not_applicable
from pipeline.release.file_rules import FILE_RULES
from pipeline.release.load_rule import load
from pipeline.release.run_summary import ADAPTER, SUMMARY_FILE, matching_summary, summary_fault
from pipeline.release.tensor_rules import TENSOR_RULES

PASSED, FAILED, NOT_REACHED, NOT_APPLICABLE = "passed", "failed", "not reached", "not applicable"
SIGNS = {PASSED: "ok", FAILED: "FAIL", NOT_REACHED: "--", NOT_APPLICABLE: "n/a"}


@dataclass(frozen=True)
class Check:
    """One line of the table, and of contract.json."""

    id: str
    what: str
    status: str
    """passed, failed, not reached (it needs what failed), or not applicable."""
    passed: bool | None
    """None when the check did not run."""
    figure: Figure
    limit: Figure
    detail: str


def base_is_the_one_trained_on(case: Case) -> Finding:
    """The base on disk is the base that training saw, byte for byte."""
    if case.trained_on is None:
        return not_applicable("no record of the training of this adapter")
    found = fingerprint(case.base, HashCache())["fingerprint"]
    for source, recorded in case.trained_on.items():
        if recorded != found:
            raise Broken(
                f"{case.base} is not the base that {source} names", found[:12], recorded[:12]
            )
    return Finding(found[:12], found[:12])


def run_summary(case: Case) -> Finding:
    """run_summary.json beside the adapter is complete and speaks of these files."""
    path = case.folder.parent / SUMMARY_FILE
    if not path.is_file() or not (case.summary_required or case.folder.name == ADAPTER):
        if case.summary_required:
            raise Broken(f"{path} is missing")
        return not_applicable("not a published adapter")
    try:
        summary = matching_summary(read_json(path), hashes(case.folder))
    except UserError as error:
        raise Broken(error.problem) from None
    if summary is None:
        raise Broken(f"{SUMMARY_FILE} speaks of other adapter files than these")
    fault = summary_fault(summary, case.folder.parent)
    if fault:
        raise Broken(f"{SUMMARY_FILE}: {fault}")
    return Finding(summary["status"])


STATIC_RULES: tuple[Rule, ...] = (
    *FILE_RULES,
    *TENSOR_RULES,
    Rule("run-summary", "run_summary.json speaks of these files", ("file-set",), run_summary),
    Rule("base", "the base is the one trained on", (), base_is_the_one_trained_on),
)

FULL_RULES: tuple[Rule, ...] = (*STATIC_RULES, VALUE_RULE)
"""What is judged without torch, the bytes of the base's weights included."""

LOAD_RULE = Rule(
    "load", "PEFT 0.9.0 loads it, logits change", tuple(rule.id for rule in FULL_RULES), load
)


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of the adapter's two files."""
    return {name: sha256_file(folder / name) for name in ADAPTER_FILES}


def judge(case: Case, rules: tuple[Rule, ...]) -> list[Check]:
    """Judge every rule; one whose needs are broken is not reached, and says of which.

    Raises:
        UserError: the base, which the user gave, cannot be read.
    """
    broken: dict[str, str] = {}
    checks = []
    for rule in rules:
        blocker = next((broken[need] for need in rule.needs if need in broken), None)
        if blocker is not None:
            broken[rule.id] = blocker
            checks.append(_check(rule, NOT_REACHED, Finding(detail=f"after {blocker}")))
            continue
        try:
            finding = rule.check(case)
            status = PASSED if finding.applicable else NOT_APPLICABLE
        except Broken as fault:
            broken[rule.id] = rule.id
            finding, status = Finding(fault.figure, fault.limit, fault.detail), FAILED
        checks.append(_check(rule, status, finding))
    return checks


def _check(rule: Rule, status: str, finding: Finding) -> Check:
    passed = {PASSED: True, FAILED: False}.get(status)
    return Check(rule.id, rule.what, status, passed, finding.figure, finding.limit, finding.detail)


def faults(checks: list[Check]) -> list[Check]:
    """The checks that failed."""
    return [check for check in checks if check.status == FAILED]


def verify_adapter(case: Case, *, loading: bool = True) -> dict[str, Any]:
    """The content of contract.json for one adapter.

    Args:
        case: the adapter, its base and the limits.
        loading: the full tier: also compare it with every value of the base, and
            load it in a child process; slower, and needs PEFT 0.9.0.
    """
    checks = judge(case, (*FULL_RULES, LOAD_RULE) if loading else STATIC_RULES)
    whole = all((case.folder / name).is_file() for name in ADAPTER_FILES)
    return {
        "schema_version": 1,
        "passed": not faults(checks),
        "adapter": str(case.folder),
        "base": str(case.base),
        "files": hashes(case.folder) if whole else {},
        "limits": case.limits.model_dump(),
        "checks": [asdict(check) for check in checks],
    }


def table(contract: dict[str, Any]) -> str:
    """The checks as text, one a line, and the verdict last."""
    lines = [f"Contract of {contract['adapter']} on {contract['base']}"]
    for check in contract["checks"]:
        figure = "" if check["figure"] is None else str(check["figure"])
        figure += "" if check["limit"] is None else f" (limit {check['limit']})"
        tail = "; ".join(part for part in (figure, check["detail"]) if part)
        lines.append(
            f"  {SIGNS[check['status']]:<4} {check['id']:<15} {check['what']:<44} {tail}".rstrip()
        )
    failed = [check for check in contract["checks"] if check["status"] == FAILED]
    if failed:
        lines.append(f"Contract BROKEN: {', '.join(check['id'] for check in failed)}")
    else:
        count = sum(check["status"] == PASSED for check in contract["checks"])
        lines.append(f"Contract kept: {count} checks passed")
    return "\n".join(lines)
