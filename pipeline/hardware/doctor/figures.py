"""Intermediate values: what can be computed from what was read, each with its formula.

Used by diagnosis.py; pure. A value that the files do not allow is left out, never guessed.
Memory by the mixed precision of ZeRO (arXiv 1910.02054, section 3.1): 2 bytes of weights,
2 of gradients, 12 of fp32 master weights and Adam's two moments; a frozen base keeps its
weights alone, and only what is trained has the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.hardware.doctor.oom import OOM, memory_figures
from pipeline.hardware.doctor.recipe import planned_warmup, rising_steps
from pipeline.hardware.doctor.record import Record

GIB = 2.0**30
WEIGHT_BYTES = {"float32": 4.0, "fp32": 4.0, "nf4": 0.516, "int8": 1.0, "fp8": 2.0}
"""Of a frozen weight; 2 for any other type."""


@dataclass(frozen=True)
class Figure:
    """One value, its unit and how it came about."""

    value: float
    unit: str
    how: str


def figures(record: Record) -> dict[str, Figure]:
    """Every intermediate value that the record allows."""
    found: dict[str, Figure] = {}
    _batch(record, found)
    _lengths(record, found)
    _schedule(record, found)
    _memory(record, found)
    _curves(record, found)
    return {name: one for name, one in found.items() if math.isfinite(one.value)}


def _batch(record: Record, found: dict[str, Figure]) -> None:
    micro, parts = record.number("micro_batch"), record.number("accumulation")
    ranks = record.number("ranks")
    if micro and parts:
        times = ranks or 1.0
        how = f"{micro:g} a device × {parts:g} micro-batches × {times:g} devices"
        found["effective_batch"] = Figure(micro * parts * times, "sequences", how)
        tokens = record.number("sequence_tokens")
        if tokens:
            whole = micro * parts * times * tokens
            how = f"{micro * parts * times:g} sequences × {tokens:g} tokens of room"
            found["tokens_per_step"] = Figure(whole, "tokens", how)
    elif tokens := record.number("sequence_tokens"):
        found["sequence_tokens"] = Figure(tokens, "tokens", "as configured")


def _lengths(record: Record, found: dict[str, Figure]) -> None:
    steps = record.steps()
    if steps:
        found["total_steps"] = Figure(steps, "steps", "as planned")
    epochs, per_step = record.series("epoch"), found.get("tokens_per_step")
    last = next((p for p in reversed(epochs) if p.value > 0 and p.step > 0), None)
    if last is not None:
        how = f"step {last.step:g} ÷ epoch {last.value:g}"
        found["steps_per_epoch"] = Figure(last.step / last.value, "steps", how)
    tokens = [p for p in record.series("tokens") if p.value > 0]
    if tokens:
        found["total_tokens"] = Figure(
            tokens[-1].value, "tokens", f"counted at {tokens[-1].step:g}"
        )
    elif steps and per_step:
        how = f"{steps:g} steps × {per_step.value:g} tokens"
        found["total_tokens"] = Figure(steps * per_step.value, "tokens", how)


def _schedule(record: Record, found: dict[str, Figure]) -> None:
    steps, planned, rose = record.steps(), planned_warmup(record), rising_steps(record)
    rates = record.series("learning_rate")
    if steps and planned is not None:
        how = f"{planned:g} of {steps:g} steps, as configured"
        found["warmup_share"] = Figure(planned / steps, "share", how)
    if steps and rose is not None:
        how = f"the rate peaks at step {rose:g} of {steps:g}"
        found["warmup_share_seen"] = Figure(rose / steps, "share", how)
    if rates:
        found["peak_rate"] = Figure(max(p.value for p in rates), "", "largest logged rate")


def _memory(record: Record, found: dict[str, Figure]) -> None:
    parameters, trainable = record.number("parameters"), record.number("trainable")
    method = record.text("method")
    if parameters:
        each, how = bytes_per_parameter(record, parameters, trainable, method)
        found["bytes_per_parameter"] = Figure(each, "bytes", how)
        fixed = parameters * each / GIB
        how = f"{parameters:,.0f} parameters × {each:.3f} bytes"
        found["fixed_memory_gib"] = Figure(fixed, "GiB", how)
    if parameters and trainable:
        how = f"{trainable:,.0f} of {parameters:,.0f}"
        found["trainable_share"] = Figure(trainable / parameters, "share", how)
    for name in ("peak_gib", "gpu_gib"):
        if value := record.number(name):
            found[name] = Figure(value, "GiB", "as measured")
    line = next((one for one in record.lines if OOM.search(one.text)), None)
    if line is not None:
        sizes = memory_figures(line.text)
        found.update({n: Figure(v, "GiB", "from the message") for n, v in sizes.items()})


def bytes_per_parameter(
    record: Record, parameters: float, trainable: float | None, method: str
) -> tuple[float, str]:
    """Bytes that stay on one device for each parameter of the model, and how.

    ZeRO stage 1 shards the 12 bytes of optimizer state, 2 the gradients as well, 3 all.
    """
    stored = record.text("quantization")
    weight = WEIGHT_BYTES.get(stored) or WEIGHT_BYTES.get(record.text("compute_dtype"), 2.0)
    if trainable and trainable < 0.5 * parameters:
        share = trainable / parameters
        return weight + 16 * share, f"{weight:g} frozen + 16 × {share:.4%} trained"
    if method in ("lora", "qlora"):
        return weight, f"{weight:g} frozen; the adapter is not told"
    state = 2.1 if "8bit" in record.text("optimizer") else 12.0
    stage, ranks = int(record.number("zero_stage") or 0), record.number("ranks") or 1.0
    parts = [2.0 / (ranks if stage >= 3 else 1), 2.0 / (ranks if stage >= 2 else 1)]
    parts.append(state / (ranks if stage >= 1 else 1))
    names = zip(parts, ("weights", "gradients", "optimizer"))
    return sum(parts), " + ".join(f"{value:.3g} {name}" for value, name in names)


def _curves(record: Record, found: dict[str, Figure]) -> None:
    for name in ("loss", "eval_loss"):
        points = record.series(name)
        if points:
            first, last = points[0], points[-1]
            found[f"first_{name}"] = Figure(first.value, "nats", f"step {first.step:g}")
            found[f"last_{name}"] = Figure(last.value, "nats", f"step {last.step:g}")
    if rows := record.number("vocabulary"):
        how = f"ln {rows:,.0f}: what guessing evenly costs"
        found["uniform_loss"] = Figure(math.log(rows), "nats", how)
    for name in ("mean_mfu", "mean_throughput", "mean_step_time"):
        if value := record.number(name):
            unit = {"mean_mfu": "%", "mean_throughput": "tokens/s"}.get(name, "s")
            found[name] = Figure(value, unit, "as measured")
