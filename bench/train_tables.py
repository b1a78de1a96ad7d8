"""The tables of bench.train: work a token, share of the ceiling, ratio to Unsloth, losses.

Called by `bench.train`; reads nothing itself. No torch.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.train_sizes import Models, Sizes
from bench.train_tasks import CHECK, WARM_UPS, lengths_of

Result = Mapping[str, Any]

NOISE = 0.01
"""Nats by which mean losses over some 2,000 tokens differ when only bf16 rounding does; other
positions or another mask move them by three times as much or more."""
LATER_NOISE = 0.05
"""The same after three updates, as a share of what was learnt by then."""
LEAK = 1e-4
"""Nats. Without a leak the loss of a document is the same whatever stands before it."""


@dataclass(frozen=True)
class Way:
    """How one way is started and with what it is compared."""

    module: str
    needs: tuple[str, ...]
    """Packages that must be installed."""
    beside: str
    """The way whose speed is 1.00."""
    storage: str = "bf16"


PEER = "bench.train_peers"
OURS = "bench.train_ours"
WAYS: dict[str, Way] = {
    "plain": Way(PEER, ("torch", "transformers", "peft"), "unsloth"),
    "liger": Way(PEER, ("torch", "transformers", "peft", "liger_kernel"), "unsloth"),
    "unsloth": Way(PEER, ("unsloth", "unsloth_zoo"), "unsloth"),
    "unsloth-nf4": Way(PEER, ("unsloth", "unsloth_zoo", "bitsandbytes"), "unsloth-nf4", "nf4"),
    "ours-bf16": Way(OURS, ("torch", "transformers", "peft"), "unsloth"),
    "ours-fp8": Way(OURS, ("torch", "transformers", "peft"), "unsloth", "fp8"),
    "ours-small-card": Way(OURS, ("torch", "bitsandbytes"), "unsloth-nf4", "nf4"),
    "ours-int8": Way(OURS, ("torch", "bitsandbytes"), "unsloth", "int8"),
    "ours-nf4": Way(OURS, ("torch", "bitsandbytes"), "unsloth-nf4", "nf4"),
}


def work_a_token(sizes: Sizes, lengths: Sequence[int], rank: int) -> dict[str, float]:
    """FLOP that a trained token takes, by part, nothing computed twice.

    With L layers, h hidden, P the weights of a layer's linears, q = heads · head_dim, n tokens
    of a document, V the vocabulary, r the rank and s the sum of (in + out) over the linears:

        linears    4 · L · P          forward, and the gradient of the input (weights are frozen)
        attention  7 · L · q · n      forward 2 · q · n under the causal mask, backward 2.5 times
        head       4 · h · V          as the linears
        adapter    6 · L · r · s      forward, and the gradients of input and weights

    For documents of several lengths n is their mean over tokens.

    Args:
        lengths: tokens of each document.
    """
    shapes = sizes.linears().values()
    seen = sum(n * n for n in lengths) / sum(lengths)
    return {
        "linears": 4.0 * sizes.layers * sum(a * b for a, b in shapes),
        "attention": 7.0 * sizes.layers * sizes.queries * seen,
        "head": 4.0 * sizes.hidden * sizes.vocabulary,
        "adapter": 6.0 * sizes.layers * rank * sum(a + b for a, b in shapes),
    }


def derived(result: Result, models: Models, ceiling: float) -> dict[str, Any]:
    """The figures of one shape of one way.

    Args:
        result: as `train_tasks.speed_figures` made it.
        ceiling: TFLOP/s.
    """
    seconds = [float(one) for one in result["step_seconds"]]
    median = statistics.median(seconds[WARM_UPS:])
    rate = int(result["tokens"]) / median
    flops = sum(work_a_token(models.base, lengths_of(str(result["task"])), models.rank).values())
    return {
        "tokens_per_second": rate,
        "peak_gib": float(result["peak_gib"]),
        "tflops": rate * flops / 1e12,
        "ceiling_share": rate * flops / 1e12 / ceiling,
        "compile_seconds": seconds[0] - median,
        "timed_steps": len(seconds) - WARM_UPS,
    }


def apart(check: Result | None) -> str:
    """What the leak check of a way found, for its column."""
    if check is None or "leak" not in check:
        return "not checked"
    leak = float(check["leak"])
    return "yes" if leak <= LEAK else f"no: they leak ({leak:.4f} nats)"


def speed_table(
    shapes: Sequence[str],
    ways: Sequence[str],
    results: Mapping[tuple[str, str], Result],
    figures: Mapping[tuple[str, str], Mapping[str, Any]],
) -> list[str]:
    """Lines of Markdown: every way of every shape, also those that failed.

    Args:
        results: (way, task) → result; errors have the key `error`.
        figures: (way, shape) → `derived`, for those that did not fail.
    """
    lines = [
        "| shape | way | tokens/s | × Unsloth | peak GiB | TFLOP/s | of the bf16 ceiling "
        "| first step − median, s | documents apart |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for shape in shapes:
        for way in ways:
            found = figures.get((way, shape))
            if found is None:
                said = results.get((way, shape), {}).get("error", "not run")
                lines.append(f"| {shape} | {way} | {_cell(said)} | | | | | | |")
                continue
            rate = found["tokens_per_second"]
            beside = figures.get((WAYS[way].beside, shape))
            ratio = f"{rate / beside['tokens_per_second']:.2f}" if beside else "–"
            cells = [shape, way, f"{rate:,.0f}", ratio, f"{found['peak_gib']:.1f}"]
            cells += [f"{found['tflops']:.3g}", f"{found['ceiling_share']:.1%}"]
            cells += [f"{found['compile_seconds']:.1f}"]
            packed = len(lengths_of(shape)) > 1
            cells += [apart(results.get((way, CHECK))) if packed else "one document"]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def planned_lines(results: Mapping[tuple[str, str], Result]) -> list[str]:
    """What the planner had predicted for our ways."""
    lines = []
    for (way, shape), result in results.items():
        if "planned" in result:
            rate, peak = (
                float(result["planned"][key]) for key in ("tokens_per_second", "peak_gib")
            )
            lines.append(f"- {way}, {shape}: planned {rate:,.0f} tokens/s, {peak:.1f} GiB")
    return lines


def verdict(way: str, losses: Sequence[float], reference: Sequence[float]) -> str:
    """Whether the losses of a way follow those of the reference."""
    first, last = losses[0] - reference[0], losses[-1] - reference[-1]
    learnt = abs(reference[0] - reference[-1])
    if WAYS[way].storage != "bf16":
        return f"{first:+.4f}, {last:+.4f} (rounded base: not compared)"
    equal = abs(first) <= NOISE and abs(last) <= max(NOISE, LATER_NOISE * learnt)
    return f"{first:+.4f}, {last:+.4f} ({'equal' if equal else 'NOT equal'})"


def loss_table(ways: Sequence[str], results: Mapping[tuple[str, str], Result]) -> list[str]:
    """Lines of Markdown: losses of the same text from the same first adapter."""
    checks = {way: results.get((way, CHECK), {}) for way in ways}
    losses = {way: check["losses"] for way, check in checks.items() if "losses" in check}
    exact = [way for way in losses if WAYS[way].storage == "bf16"]
    name = next(iter(exact or losses), None)
    lines = [
        f"| way | base | after 1, 2, 3 updates | first and last, less those of {name} "
        "| documents apart |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for way, check in checks.items():
        if way not in losses or name is None:
            lines.append(f"| {way} | {_cell(check.get('error', 'not run'))} | | | |")
            continue
        later = ", ".join(f"{one:.4f}" for one in losses[way][1:])
        compared = verdict(way, losses[way], losses[name])
        lines.append(f"| {way} | {losses[way][0]:.4f} | {later} | {compared} | {apart(check)} |")
    return lines


def _cell(text: object) -> str:
    return " ".join(str(text).replace("|", "/").split())
