"""What the figures of a run say: loss, rate, gradients, evaluation, speed.

Used by diagnosis.py; pure. Every limit is a named constant; docs/diagnosis.md gives the
reasons. A rule that lacks a figure says nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pipeline.hardware.doctor.logs import not_finite
from pipeline.hardware.doctor.record import Finding, Point, Record

FEW_STEPS = 20
RISE = 1.2
"""The mean loss of the last quarter over the first one's, or nats above it, that means harm."""
LITTLE = 0.1
"""Fall of the loss, relative, that is hardly one."""
USUAL_RATES = {"lora": 1e-3, "full": 1e-5}
"""Upper end of what docs/recipe.md finds for adapters and for full training."""
SPIKE = 20.0
"""A gradient over the median of all."""
CLIPPED_SHARE = 0.9
SLOW = 0.6
KNOWN_BY_HEART = 0.15
"""Relative drop of the loss across the end of a pass."""


def mean(points: Sequence[Point]) -> float:
    """Mean of the values."""
    return statistics.fmean(point.value for point in points)


def ends(points: Sequence[Point], share: int = 4) -> tuple[Sequence[Point], Sequence[Point]]:
    """The first and the last part of a series, a quarter each unless told otherwise."""
    part = max(1, len(points) // share)
    return points[:part], points[-part:]


def finite(record: Record) -> list[Finding]:
    """The first loss or gradient that is no finite number."""
    for name in ("loss", "grad_norm"):
        bad = next((p for p in record.series(name) if not math.isfinite(p.value)), None)
        if bad is not None:
            return [not_finite(record, bad.line)]
    stopped = next((p for p in record.series("nan_steps") if p.value > 0), None)
    return [not_finite(record, stopped.line)] if stopped else []


def rate(record: Record) -> list[Finding]:
    """A loss that rose and stayed high."""
    losses = [p for p in record.series("loss") if math.isfinite(p.value)]
    if len(losses) < 8 or record.series("reward") or record.series("policy_ratio"):
        return []
    first, last = ends(losses, 8)
    lowest = min(losses, key=lambda p: p.value)
    rose = mean(last) > RISE * mean(first) and mean(last) > mean(first) + 0.2
    never_back = mean(last) > RISE * lowest.value + 0.5 and lowest.step < losses[-1].step / 2
    told = record.number("learning_rate")
    method = "full" if record.text("method") == "full" else "lora"
    stuck = bool(told and told > 10 * USUAL_RATES[method] and progress(record))
    if not rose and not never_back and not stuck:
        return []
    fix = {}
    if told:
        fix = record.fix("learning_rate", float(f"{min(told / 10, USUAL_RATES[method]):.3g}"))
    lines = (losses[0].line, max(losses, key=lambda p: p.value).line, losses[-1].line)
    effect = "the loss falls from the first steps on" if fix else ""
    return [Finding("rate_too_high", (*lines, *record.evidence("learning_rate")), fix, effect)]


def still(record: Record) -> list[Finding]:
    """Gradients of zero, or a rate of zero, at every step."""
    gradients, rates = record.series("grad_norm"), record.series("learning_rate")
    losses = record.series("loss")
    found = []
    if len(rates) > 1 and all(p.value == 0 for p in rates):
        found.append(Finding("rate_zero", (rates[0].line, rates[-1].line)))
    if len(gradients) > 1 and all(p.value == 0 for p in gradients):
        empty = bool(losses) and all(p.value == 0 for p in losses)
        if not empty and record.number("trained_tokens") != 0:
            found.append(Finding("no_gradient", (gradients[0].line, gradients[-1].line)))
    elif rates and rates[0].value == 0 and rates[0].step == 1 and len(rates) > 1:
        found.append(Finding("first_update_wasted", (rates[0].line,)))
    return found


def gradients(record: Record) -> list[Finding]:
    """Spikes, and clipping that never rests."""
    points = [p for p in record.series("grad_norm") if math.isfinite(p.value)]
    if len(points) < 8:
        return []
    found, middle = [], statistics.median(p.value for p in points)
    worst = max(points, key=lambda p: p.value)
    if middle > 0 and worst.value > SPIKE * middle:
        found.append(Finding("gradient_spikes", (worst.line,)))
    clip = record.number("clip_norm")
    above = [p for p in points if clip and p.value > clip]
    if clip and len(above) >= CLIPPED_SHARE * len(points):
        ordered = sorted(p.value for p in points)
        new = float(f"{ordered[len(ordered) // 2]:.2g}")
        fix = record.fix("clip_norm", new)
        lines = (above[0].line, *record.evidence("clip_norm"))
        found.append(Finding("always_clipped", lines, fix, "half of the updates keep their size"))
    return found


def evaluation(record: Record) -> list[Finding]:
    """Overfitting, accuracy of zero, forgetting."""
    found, held = [], record.series("eval_loss")
    losses = record.series("loss")
    if len(held) >= 4 and losses:
        best = min(held, key=lambda p: p.value)
        grew = mean(ends(held)[1]) > 1.1 * best.value and best.step < held[-1].step / 2
        if grew and mean(ends(losses)[1]) < mean(ends(losses)[0]):
            fix = _stop_at(record, best)
            effect = f"ends at an evaluation loss near {best.value:.3g}" if fix else ""
            found.append(Finding("overfitting", (best.line, held[-1].line), fix, effect))
    accuracy = record.series("eval_accuracy")
    if len(accuracy) >= 4 and all(p.value == 0 for p in accuracy):
        found.append(Finding("accuracy_zero", (accuracy[0].line, accuracy[-1].line)))
    lost = [p for p in record.series("forgetting") if p.value > 0.3]
    return [*found, *(Finding("forgetting", (p.line,)) for p in lost[-1:])]


def _stop_at(record: Record, best: Point) -> dict[str, float | str | bool | None]:
    if "epochs" in record.settings and (total := record.steps()):
        passes = record.number("epochs") or 0.0
        return record.fix("epochs", max(1.0, round(passes * best.step / total, 2)))
    return record.fix("max_steps", best.step) if "max_steps" in record.settings else {}


def memorised(record: Record) -> list[Finding]:
    """A staircase: the loss drops where a pass ends, because its rows come back."""
    rows = [r for r in record.rows if {"loss", "epoch"} <= r.values.keys()]
    last = math.ceil(max((r.values["epoch"] for r in rows), default=0))
    drops = []
    for border in range(1, last):
        before = [r for r in rows if border - 0.1 <= r.values["epoch"] < border]
        after = [r for r in rows if border < r.values["epoch"] <= border + 0.1]
        if len(before) >= 3 and len(after) >= 3:
            was = statistics.fmean(r.values["loss"] for r in before)
            fall = 1 - statistics.fmean(r.values["loss"] for r in after) / was if was else 0.0
            drops.append((fall, before[-1], after[0]))
    if len(drops) < 2 or min(fall for fall, _, _ in drops) < KNOWN_BY_HEART:
        return []
    lines = tuple(row.line for _, before, after in drops for row in (before, after))
    fix = record.fix("epochs", 2.0) if (record.number("epochs") or 0) > 2 else {}
    effect = "less is known by heart; a held-out loss must show it" if fix else ""
    return [Finding("memorising", lines[:4], fix, effect)]


def progress(record: Record) -> list[Finding]:
    """A loss that hardly fell, over enough rows to tell; reinforcement has no such loss."""
    losses = [p for p in record.series("loss") if math.isfinite(p.value)]
    if len(losses) < 8 or record.series("reward") or record.series("policy_ratio"):
        return []
    held = record.series("eval_loss")
    if len(held) >= 4 and mean(ends(held)[1]) < (1 - LITTLE) * held[0].value:
        return []
    first, last = ends(losses)
    fall = 1 - mean(last) / mean(first) if mean(first) else 0.0
    if not -0.05 <= fall < LITTLE or mean(last) < 0.5:
        return []
    return [Finding("little_progress", (losses[0].line, losses[-1].line))]


def length(record: Record) -> list[Finding]:
    """Too few updates, or a small part of the data."""
    found, steps = [], record.steps()
    ours = record.evidence("max_steps") or tuple(p.line for p in record.series("step")[-1:])
    if steps and steps < FEW_STEPS and record.rows:
        found.append(Finding("too_few_steps", ours))
    epochs = record.series("epoch")
    reached = max((p.value for p in epochs), default=0.0)
    done = record.number("done_global_step")
    if done and steps and done >= steps and 0 < reached < 0.1:
        found.append(Finding("small_share_of_data", (epochs[-1].line,)))
    return found


def speed(record: Record) -> list[Finding]:
    """A lasting fall of the tokens a second, and trainers that do not count them."""
    points = record.series("tokens_per_second")
    if points and all(p.value == 0 for p in points):
        return [Finding("tokens_not_counted", (points[0].line,))]
    if len(points) < 16 or record.series("reward"):
        return []
    first, last = ends(points)
    early, late = (statistics.median(p.value for p in part) for part in (first, last))
    if late >= SLOW * early or max(p.value for p in last) >= early:
        return []
    return [Finding("slowed_down", (first[-1].line, last[-1].line))]


def reinforcement(record: Record) -> list[Finding]:
    """What only sampled training shows."""
    found = []
    cut = [p for p in record.series("clipped_replies") if p.value > 0.5]
    if cut:
        found.append(Finding("replies_cut_off", (cut[-1].line,)))
    equal = [p for p in record.series("zero_advantage") if p.value > 0.4]
    if equal:
        found.append(Finding("no_advantage", (equal[-1].line,)))
    reward, accuracy = record.series("reward"), record.series("eval_accuracy")
    if len(reward) >= 8 and len(accuracy) >= 2:
        rose = mean(ends(reward)[1]) > mean(ends(reward)[0])
        fell = accuracy[-1].value < 0.9 * accuracy[0].value
        if rose and fell:
            found.append(Finding("reward_hacking", (accuracy[0].line, accuracy[-1].line)))
    return found


RULES = (
    finite, rate, still, gradients, evaluation, memorised, progress, length, speed, reinforcement,
)  # fmt: skip
