"""The diagnosis as a page of plain text (Markdown), for a person.

Called by the diagnose command; pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from pipeline.hardware.doctor.codes import CODES
from pipeline.hardware.doctor.diagnosis import Diagnosis
from pipeline.hardware.doctor.record import Finding

SENTENCES = {
    "fault": "Something broke this run or spoilt its result.",
    "warning": "Nothing broke this run, but it can be better.",
    "sound": "The figures are those of a run that learns; no fault is visible.",
    "unknown": "The files do not tell what, if anything, is wrong.",
}


def draw(diagnosis: Diagnosis) -> str:
    """The whole page."""
    return "\n".join(_lines(diagnosis)) + "\n"


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"# Diagnosis: {diagnosis.verdict}"
    yield ""
    yield f"{SENTENCES[diagnosis.verdict]} Read: {', '.join(dict.fromkeys(diagnosis.kinds))}."
    for finding in diagnosis.findings:
        yield from _finding(finding)
    if diagnosis.figures:
        yield ""
        yield "## Figures"
        yield ""
        yield "| what | value | how |"
        yield "| --- | --- | --- |"
        for name, one in diagnosis.figures.items():
            yield f"| {name} | {one.value:.6g} {one.unit} | {one.how} |"


def _finding(finding: Finding) -> Iterator[str]:
    code = CODES[finding.code]
    yield ""
    yield f"## {finding.code} ({code.grade})"
    yield ""
    yield f"{code.meaning[0].upper()}{code.meaning[1:]}."
    yield ""
    for line in finding.evidence:
        yield f"- `{str(line).replace('`', chr(39))}`"
    yield ""
    if finding.fix:
        for key, value in finding.fix.items():
            yield f"Change `{key}` to `{json.dumps(value)}`: {finding.effect}."
    else:
        yield f"No field to change follows from these files. {code.remedy}"
