"""What lines of a log say outright: exceptions, timeouts, our own messages.

Used by diagnosis.py; pure. Each pattern stands for one code; the first line that matches is
the evidence, since what follows a fault is mostly its echo.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.hardware.doctor.oom import oom_findings
from pipeline.hardware.doctor.record import Finding, Line, Record, Value


@dataclass(frozen=True)
class Pattern:
    """A wording and what it means."""

    code: str
    wording: re.Pattern[str]


def _pattern(code: str, wording: str) -> Pattern:
    return Pattern(code, re.compile(wording))


PATTERNS = (
    _pattern("disk_full", r"No space left on device|no space left|Disk quota exceeded|ENOSPC"),
    _pattern(
        "device_lost",
        r"\bXid\b|has fallen off the bus|uncorrectable ECC|unspecified launch failure"
        r"|CUDA error: an illegal memory access",
    ),
    _pattern(
        "token_out_of_range",
        r"srcIndex < srcSelectDimSize|index out of range in self|vectorized_gather_kernel.*out of",
    ),
    _pattern(
        "collective_timeout",
        r"Watchdog caught collective operation timeout|[Nn][Cc][Cc][Ll].*timed? ?out"
        r"|Timed out waiting \d+ ?ms for (?:recv|send)|DistBackendError.*timeout"
        r"|Connection closed by peer",
    ),
    _pattern("rank_hung", r'rank \d+ made no progress for|"saved_step": ?\d+, "doing"'),
    _pattern("port_in_use", r"Address already in use|EADDRINUSE"),
    _pattern("package_missing", r"ModuleNotFoundError: No module named|ImportError: .*requires"),
    _pattern("shapes_differ", r"size mismatch for |Error\(s\) in loading state_dict"),
    _pattern("permission", r"PermissionError|Permission denied|permission denied"),
    _pattern("host_memory", r"oom-kill|Out of memory: Killed|exit(?:ed with|code:?) ?-9\b"),
    _pattern("host_memory", r"processes ended with \[.*-9.*\]"),
    _pattern(
        "not_finite",
        r"not finite|became infinite or not a number|loss is nan|found NaN in|Loss is NaN",
    ),
    _pattern("checkpoint_damaged", r"checkpoint rejected|passed over.*checkpoint-\d+"),
    _pattern("interrupted", r"stopped by (?:SIG|a signal)"),
    _pattern("loss_scale_collapsed", r"Minimum loss scale reached|Current loss scale already at"),
)
ECHOES = {
    "device_lost": {"collective_timeout", "rank_hung"},
    "disk_full": {"collective_timeout", "rank_hung", "interrupted", "checkpoint_damaged"},
    "not_finite": {"collective_timeout"},
    "host_memory": {"collective_timeout", "rank_hung"},
    "token_out_of_range": {"collective_timeout", "device_lost"},
    "loss_scale_collapsed": {"not_finite"},
    "rank_hung": {"interrupted"},
}
"""Code → codes that follow from it."""

TIMEOUT_RANK = re.compile(r"\[Rank (\d+)\].*collective", re.IGNORECASE)


def log_findings(record: Record) -> list[Finding]:
    """What the lines say, without what merely follows from another finding."""
    found = {finding.code: finding for finding in oom_findings(record)}
    for pattern in PATTERNS:
        line = next((line for line in record.lines if pattern.wording.search(line.text)), None)
        if line is not None and pattern.code not in found:
            found[pattern.code] = _judge(record, pattern.code, line)
    echoes = set().union(*(ECHOES.get(code, set()) for code in found))
    if any(code.startswith("oom") for code in found):
        echoes |= {"collective_timeout", "rank_hung"}
    return [finding for code, finding in found.items() if code not in echoes]


def _judge(record: Record, code: str, line: Line) -> Finding:
    if code == "not_finite":
        return not_finite(record, line)
    if code == "collective_timeout":
        return Finding(code, (line, *_silent_ranks(record)))
    if code == "loss_scale_collapsed":
        return scale_collapsed(record, line)
    return Finding(code, (line,))


def not_finite(record: Record, *evidence: Line) -> Finding:
    """Half precision first; otherwise half the learning rate."""
    settings = record.evidence("compute_dtype", "learning_rate")
    if record.text("compute_dtype") in ("float16", "fp16", "half"):
        return scale_collapsed(record, *evidence)
    rate = record.number("learning_rate")
    fix = record.fix("learning_rate", rate / 2) if rate else {}
    return Finding(
        "not_finite", (*evidence, *settings), fix, "updates half as large" if fix else ""
    )


def scale_collapsed(record: Record, *evidence: Line) -> Finding:
    """fp16 that overflows at any scale: another type cures it, no smaller rate does."""
    told = record.settings.get("compute_dtype")
    fix: dict[str, Value] = {told.key: "bfloat16"} if told else {}
    lines = (*evidence, *record.evidence("compute_dtype", "loss_scale"))
    return Finding("loss_scale_collapsed", lines, fix, "the range of fp32: no overflow")


def _silent_ranks(record: Record) -> tuple[Line, ...]:
    """The first line of each rank that says it waited: the missing one is the one to look at."""
    first: dict[str, Line] = {}
    for line in record.lines:
        match = TIMEOUT_RANK.search(line.text)
        if match:
            first.setdefault(match[1], line)
    return tuple(first.values())[1:4]
