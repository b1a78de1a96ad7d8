"""What settings and figures say together: warm-up, mask, packing, positions, the clock.

Used by diagnosis.py; pure.
"""

from __future__ import annotations

import json
import math
import re

from pipeline.hardware.doctor.record import Finding, Record

LONG_WARMUP = 0.3
"""Share of the steps; recipes use 0.03 to 0.1."""
USUAL_WARMUP = 0.05
THETA = {"qwen3": 1e6, "qwen3_moe": 1e6}
"""Model type → least rotary base of its released checkpoints."""
LLAMA3_ROWS, LLAMA3_THETA = 128256, 5e5
"""Llama 3 shares its model type with older ones; its vocabulary tells it apart."""
KERNELS_WITH_LENGTHS = re.compile(r"varlen|flash|flex|fa2|fa3|cudnn")


def mask(record: Record) -> list[Finding]:
    """No token carries loss: counted in the data, or seen as a loss of zero or of nothing."""
    if record.number("trained_tokens") == 0:
        return [Finding("nothing_trained", record.evidence("trained_tokens"))]
    losses, gradients = record.series("loss"), record.series("grad_norm")
    empty = len(losses) > 1 and all(p.value == 0 for p in losses)
    if empty and gradients and all(p.value == 0 for p in gradients):
        return [Finding("nothing_trained", (losses[0].line, losses[-1].line))]
    return []


def rising_steps(record: Record) -> float | None:
    """Steps until the learning rate first reaches its peak; None without rates."""
    rates = record.series("learning_rate")
    stepless = any("learning_rate" in r.values and "step" not in r.values for r in record.rows)
    if len(rates) < 4 or stepless:
        return None
    peak = max(p.value for p in rates)
    top = next(p for p in rates if p.value >= 0.999 * peak)
    return top.step if peak > 0 and top.value > rates[0].value else 0.0


def planned_warmup(record: Record) -> float | None:
    """Steps of the warm-up as configured."""
    steps, share = record.number("warmup_steps"), record.number("warmup_share")
    if steps:
        return steps
    total = record.steps()
    return share * total if share is not None and total else None


def warmup(record: Record) -> list[Finding]:
    """A warm-up that takes most of the run, by setting or by the rates."""
    total, rose = record.steps(), rising_steps(record)
    planned, parts = planned_warmup(record), record.number("accumulation")
    rates = record.series("learning_rate")
    if not total:
        return []
    key = "warmup_steps" if record.number("warmup_steps") else "warmup_share"
    again = sum(line.file == "journal.jsonl" for line in record.lines) > 1
    late = rose is not None and planned is not None and rose - planned > max(2.0, planned / 2)
    if planned and rose and parts and parts > 1 and late and not again:
        seen = min(planned * parts, rates[-1].step)
        if abs(rose - seen) <= max(2.0, 0.15 * seen):
            return [_in_micro_steps(record, key, parts)]
    if planned and planned > LONG_WARMUP * total:
        new = USUAL_WARMUP if key == "warmup_share" else math.ceil(USUAL_WARMUP * total)
        fix = record.fix(key, new)
        effect = f"full rate after {USUAL_WARMUP:.0%} of the steps"
        return [Finding("warmup_too_long", record.evidence(key, "max_steps"), fix, effect)]
    if planned is None and rose and rose > LONG_WARMUP * total:
        return [Finding("warmup_too_long", (rates[0].line, rates[-1].line))]
    return []


def _in_micro_steps(record: Record, key: str, parts: float) -> Finding:
    """The rates rose as long as if each of the micro-batches were a step."""
    rates, now = record.series("learning_rate"), record.number(key) or 0.0
    new = now / parts if key == "warmup_share" else max(1.0, round(now / parts))
    lines = (rates[0].line, rates[-1].line, *record.evidence(key, "accumulation"))
    fix = record.fix(key, float(f"{new:.4g}"))
    return Finding("warmup_in_micro_steps", lines, fix, f"full rate {parts:.0f} times sooner")


def accumulated(record: Record) -> list[Finding]:
    """A first loss that no mean can have, and a likely one after division by the micro-batches."""
    losses, parts = record.series("loss"), record.number("accumulation")
    rows = record.number("vocabulary")
    if not losses or not parts or parts < 2 or not rows:
        return []
    first, uniform = losses[0].value, math.log(rows)
    if not first > 1.3 * uniform or not 0.1 < first / parts < 1.1 * uniform:
        return []
    lines = (losses[0].line, *record.evidence("accumulation", "vocabulary"))
    fix = record.fix("loss_reduction", "mean over the tokens of the step")
    return [Finding("loss_scaled_by_accumulation", lines, fix, f"loss and gradient ÷ {parts:.0f}")]


def rope(record: Record) -> list[Finding]:
    """A rotary base below that of the family, and sequences beyond the positions."""
    found, kind = [], record.text("model_type")
    least = THETA.get(kind)
    if kind == "llama" and record.number("vocabulary") == LLAMA3_ROWS:
        least = LLAMA3_THETA
    if least and "rope_theta" in record.settings and (record.number("rope_theta") or 0) < least:
        lines = record.evidence("rope_theta", "model_type")
        fix = record.fix("rope_theta", least)
        found.append(Finding("wrong_rope", lines, fix, "the base's own loss at the first step"))
    tokens, most = record.number("sequence_tokens"), record.number("max_positions")
    if tokens and most and tokens > most:
        lines = record.evidence("sequence_tokens", "max_positions")
        fix = record.fix("sequence_tokens", int(most))
        found.append(Finding("positions_beyond_base", lines, fix, "only positions it has learnt"))
    return found


def packs(record: Record) -> list[Finding]:
    """Packing whose attention cannot know where a document ends."""
    told, stored = record.number("documents"), record.number("stored_documents")
    if told and stored and stored < told:
        lines = record.evidence("documents", "stored_documents")
        fix = record.fix("document_lengths", "made again by `dvc repro -f tokenize`")
        return [Finding("leaking_packs", lines, fix, "documents end where the manifest says")]
    if record.text("packing") not in ("true", "1.0") or record.text("neat_packing") == "true":
        return []
    kernel = record.text("attention")
    if KERNELS_WITH_LENGTHS.search(kernel):
        return []
    if kernel in ("sdpa", "eager", "math") or "neat_packing" in record.settings:
        lines = record.evidence("packing", "neat_packing", "attention")
        fix = record.fix("neat_packing", True)
        return [Finding("leaking_packs", lines, fix, "each document sees itself alone")]
    return []


def clock(record: Record) -> list[Finding]:
    """Our journal: a budget that cut the plan to less than half."""
    entries = []
    for line in record.lines:
        if line.file == "journal.jsonl":
            try:
                entry = json.loads(line.text)
                entries.append((float(entry["total"]), str(entry["why"]), line))
            except (ValueError, KeyError, TypeError):
                continue
    cut = [entry for entry in entries if entry[1] == "budget"]
    if not cut or cut[-1][0] >= 0.5 * entries[0][0]:
        return []
    return [Finding("clock_cut", (entries[0][2], cut[-1][2]))]


def scale(record: Record) -> list[Finding]:
    """fp16 whose loss scale fell to its floor."""
    kept = record.number("loss_scale")
    if kept is None or kept > 1 or record.text("compute_dtype") not in ("float16", "fp16"):
        return []
    lines = record.evidence("loss_scale", "compute_dtype")
    fix = record.fix("compute_dtype", "bfloat16")
    return [Finding("loss_scale_collapsed", lines, fix, "the range of fp32: no overflow")]


def utilisation(record: Record) -> list[Finding]:
    """A benchmark that leaves most of the device idle."""
    mfu = record.number("mean_mfu")
    if mfu is None or mfu >= 20:
        return []
    return [Finding("low_utilisation", record.evidence("mean_mfu"))]


RULES = (mask, warmup, accumulated, rope, packs, clock, scale, utilisation)
