"""Out of device memory: the wordings of all versions, where it happened, what to change.

Used by logs.py; pure. Old wording (until PyTorch 2.0): "(GPU 0; 15.78 GiB total capacity;
12.00 GiB already allocated; 1.2 GiB free; 14.0 GiB reserved in total by PyTorch)". New one:
"GPU 0 has a total capacity of … of which … is free. … Of the allocated memory … is
allocated by PyTorch, and … is reserved by PyTorch but unallocated."
"""

from __future__ import annotations

import re

from pipeline.hardware.doctor.record import Finding, Line, Record, Value

OOM = re.compile(
    r"out of memory(?!: Killed)|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED", re.IGNORECASE
)
HOST = re.compile(r"CPUAllocator|can't allocate memory|\bMemoryError|Cannot allocate memory")
SIZE = r"(\d+(?:\.\d+)?)\s*(bytes|KiB|MiB|GiB|MB|GB)"
FIGURES = {
    "asked_gib": re.compile(rf"[Tt]ried to allocate {SIZE}"),
    "capacity_gib": re.compile(rf"total capacity of {SIZE}|{SIZE} total capacity"),
    "free_gib": re.compile(rf"of which {SIZE} is free|{SIZE} free"),
    "allocated_gib": re.compile(rf"{SIZE} is allocated by PyTorch|{SIZE} already allocated"),
    "idle_gib": re.compile(rf"{SIZE} is reserved by PyTorch but unallocated"),
    "reserved_gib": re.compile(rf"{SIZE} reserved in total"),
}
OTHER = re.compile(rf"Process \d+ has {SIZE} memory in use")
UNIT = {"bytes": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "MB": 2.0**-10, "GB": 1.0}
"""In GiB; PyTorch's old MB and GB are powers of two as well."""

FRAME = re.compile(r'\s*File ".*", line \d+, in ')
PLACES = (
    ("oom_optimizer", re.compile(r"optimizer\.step|optim/|_init_group|exp_avg|adamw?\.py")),
    ("oom_evaluation", re.compile(r"\.generate\(|in generate\b|in evaluate\b|in evaluation_loop")),
    ("oom_logits", re.compile(r"lm_head|logits|cross_entropy|in (?:token|chunk)_loss")),
    ("oom_step", re.compile(r"\.backward\(|in training_step|in forward|in backward")),
    ("oom_load", re.compile(r"from_pretrained|load_state_dict|in build\b|load_checkpoint|\.to\(")),
)
"""Innermost first: an optimizer step and a generation also pass through other frames."""

FRAMES_BACK = 400
"""Lines before the error in which its traceback is looked for."""


def gib_of(pattern: re.Pattern[str], text: str) -> float | None:
    """A size that a message names, in GiB."""
    match = pattern.search(text)
    if match is None:
        return None
    number, unit = [group for group in match.groups() if group is not None][:2]
    return float(number) * UNIT[unit]


def memory_figures(text: str) -> dict[str, float]:
    """All sizes of a message, in GiB."""
    found = {name: gib_of(pattern, text) for name, pattern in FIGURES.items()}
    sizes = {name: value for name, value in found.items() if value is not None}
    if "reserved_gib" in sizes and "allocated_gib" in sizes:
        sizes["idle_gib"] = sizes["reserved_gib"] - sizes["allocated_gib"]
    return sizes


def _place(lines: list[Line], at: int) -> tuple[str, Line | None]:
    """Where in a training step, by the frames of the traceback that ends at `at`."""
    frames: list[Line] = []
    for line in reversed(lines[max(0, at - FRAMES_BACK) : at]):
        if "Traceback (most recent call last)" in line.text:
            break
        frames.append(line)
    if not any(FRAME.match(line.text) for line in frames):
        return "oom", None
    for code, pattern in PLACES:
        for line in frames:
            if pattern.search(line.text):
                return code, line
    return "oom", None


def smaller_batch(record: Record) -> dict[str, Value]:
    """Half the micro-batch at the same effective batch, else recomputation, else less length."""
    micro, accumulation = record.number("micro_batch"), record.number("accumulation")
    if micro and micro > 1:
        half = int(micro) // 2
        fix = record.fix("micro_batch", half)
        if accumulation and not _is_ours(record):
            fix |= record.fix("accumulation", int(accumulation * micro / half))
        return fix
    if record.text("recompute") in ("false", "0.0", "0", "none"):
        return record.fix("recompute", True)
    tokens = record.number("sequence_tokens")
    return record.fix("sequence_tokens", int(tokens) // 2) if tokens and micro else {}


def _is_ours(record: Record) -> bool:
    """Our plan works the accumulation out from the micro-batch."""
    return "run of this project" in record.kinds


def _fix(record: Record, code: str) -> dict[str, Value]:
    if code == "oom_optimizer":
        name = "adamw-8bit" if _is_ours(record) else "adamw_8bit"
        asked = record.text("optimizer")
        return {} if "8bit" in asked else record.fix("optimizer", name)
    if code in ("oom_step", "oom_logits"):
        return smaller_batch(record)
    if code == "oom_load" and _is_ours(record) and record.text("quantization") == "none":
        return {"train.base_quantization": "nf4"}
    return {}


EFFECTS = {
    "oom_optimizer": "optimizer state of 2.1 instead of 8 bytes an element",
    "oom_step": "about half of the activations of a step; the same update",
    "oom_logits": "about half of the logits of a micro-batch; the same update",
    "oom_load": "0.52 instead of 2 bytes a weight of the linear layers",
    "memory_fragmented": "pieces that grow: what is reserved but idle can be used",
}


def oom_findings(record: Record) -> list[Finding]:
    """The first message of lost memory, judged; none when there is none."""
    for at, line in enumerate(record.lines):
        if HOST.search(line.text):
            return [Finding("host_memory", (line,))]
        if not OOM.search(line.text) or FRAME.match(line.text):
            continue
        following = [after.text for after in record.lines[at + 1 : at + 4]]
        return [_judge(record, at, line, " ".join([line.text, *following]))]
    return []


def _judge(record: Record, at: int, line: Line, message: str) -> Finding:
    sizes = memory_figures(message)
    asked, idle = sizes.get("asked_gib", 0.0), sizes.get("idle_gib", 0.0)
    if asked and idle > asked:
        fix: dict[str, Value] = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
        return Finding("memory_fragmented", (line,), fix, EFFECTS["memory_fragmented"])
    others = sum(float(m[1]) * UNIT[m[2]] for m in list(OTHER.finditer(message))[:-1])
    if others > asked > 0:
        return Finding("device_shared", (line,))
    code, frame = _place(record.lines, at)
    fix = _fix(record, code)
    evidence = (line,) if frame is None else (line, frame)
    return Finding(code, evidence, fix, EFFECTS.get(code, "") if fix else "")
