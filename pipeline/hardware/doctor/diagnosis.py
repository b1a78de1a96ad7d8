"""All rules over one record: the diagnosis, as plain data.

Called by the diagnose command and by the train stage when training fails; pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pipeline.hardware.doctor import curves, recipe
from pipeline.hardware.doctor.codes import CODES
from pipeline.hardware.doctor.figures import Figure, figures
from pipeline.hardware.doctor.logs import log_findings
from pipeline.hardware.doctor.record import Finding, Record

ORDER = {"fault": 0, "warning": 1, "note": 2}
FEWEST_ROWS = 8
"""Rows of figures from which a quiet run can be called sound."""

EXPLAINED = {
    "nothing_trained": {"no_gradient", "little_progress", "rate_too_high", "not_finite"},
    "rate_zero": {"little_progress", "no_gradient", "first_update_wasted"},
    "no_gradient": {"little_progress"},
    "warmup_in_micro_steps": {"little_progress", "warmup_too_long"},
    "warmup_too_long": {"little_progress"},
    "loss_scaled_by_accumulation": {"always_clipped", "gradient_spikes"},
    "loss_scale_collapsed": {"not_finite"},
    "rate_too_high": {"always_clipped", "gradient_spikes", "little_progress", "overfitting"},
    "reward_hacking": {"overfitting"},
}
"""Code → codes that follow from it and are left out beside it."""


@dataclass(frozen=True)
class Diagnosis:
    """The result.

    Attributes:
        verdict: faults, warnings, sound, or unknown when the files do not tell.
        figures: the intermediate values.
    """

    verdict: str
    kinds: tuple[str, ...]
    findings: tuple[Finding, ...]
    figures: dict[str, Figure]

    @property
    def codes(self) -> list[str]:
        """The codes, gravest first."""
        return [finding.code for finding in self.findings]

    def as_json(self) -> dict[str, object]:
        """The diagnosis as JSON; schema_version counts changes of its form."""
        return {
            "schema_version": 1,
            "verdict": self.verdict,
            "read": list(self.kinds),
            "diagnoses": [
                {
                    "code": finding.code,
                    "grade": CODES[finding.code].grade,
                    "meaning": CODES[finding.code].meaning,
                    "evidence": [str(line) for line in finding.evidence],
                    "fix": finding.fix or None,
                    "remedy": CODES[finding.code].remedy,
                    "effect": finding.effect or None,
                }
                for finding in self.findings
            ],
            "intermediates": {
                name: {"value": one.value, "unit": one.unit, "how": one.how}
                for name, one in self.figures.items()
            },
            "fix": {k: v for finding in self.findings for k, v in finding.fix.items()},
        }

    def in_a_line(self) -> str:
        """The gravest finding with its first line and its fix, for a log."""
        if not self.findings:
            return "diagnosis: unknown; the files of the run show no cause"
        first = self.findings[0]
        said = f"diagnosis: {first.code}: {CODES[first.code].meaning}"
        where = f" ({first.evidence[0]})" if first.evidence else ""
        fix = f"change {json.dumps(first.fix)}" if first.fix else CODES[first.code].remedy
        return f"{said}{where}; {fix.rstrip('.')}"


def diagnose(record: Record) -> Diagnosis:
    """Every finding, gravest first, without what another one explains."""
    found: dict[str, Finding] = {}
    for finding in log_findings(record):
        found.setdefault(finding.code, finding)
    for rule in (*recipe.RULES, *curves.RULES):
        for finding in rule(record):
            found.setdefault(finding.code, finding)
    gone = set().union(*(EXPLAINED.get(code, set()) for code in found))
    kept = [finding for code, finding in found.items() if code not in gone]
    kept.sort(key=lambda finding: ORDER[CODES[finding.code].grade])
    return Diagnosis(_verdict(record, kept), tuple(record.kinds), tuple(kept), figures(record))


def _verdict(record: Record, findings: list[Finding]) -> str:
    grades = {CODES[finding.code].grade for finding in findings}
    if "fault" in grades:
        return "fault"
    if "warning" in grades:
        return "warning"
    told = len(record.series("loss")) >= FEWEST_ROWS or len(record.series("eval_loss")) >= 4
    return "sound" if told else "unknown"
