"""How a log says a number, and how the number is read back from the log.

The prompt writer picks one of several wordings and one of several line prefixes; the
solver knows the wordings, as a reader of logs does.
"""

from __future__ import annotations

import re
from functools import cache
from random import Random

PHRASES: dict[str, tuple[str, ...]] = {
    "fragmentation_gib": (
        "{v} GiB is reserved by PyTorch but unallocated",
        "allocator: reserved minus allocated = {v} GiB",
        "memory summary | inactive split blocks | {v} GiB",
    ),
    "added_tokens": ("tokenizer: {v} tokens added to the vocabulary", "added_tokens={v}"),
    "decode_step_ms": ("decode: {v} ms a step for the whole batch", "generate | step | {v} ms"),
    "disk_write_gib_per_s": ("checkpoint written at {v} GiB/s", "disk bandwidth (GiB/s): {v}"),
    "seconds_per_step": ("'step_time': {v}", "elapsed time per iteration (s): {v}"),
    "mean_example_tokens": ("mean tokens per example: {v}", "dataset | mean length | {v}"),
    "examples": ("  Num examples = {v}", "loaded {v} examples", "dataset | examples | {v}"),
    "reserved_hours": (
        "clock: {v} h reserved for evaluation and export", "reserved_hours={v}",
    ),
    "logged_step": ("optimizer step {v} done", "global_step={v}"),
    "logged_rate": ("learning rate: {v}", "'learning_rate': {v}"),
}  # fmt: skip
NUMBER = r"(-?[0-9.]+(?:e[+-]?[0-9]+)?)"
PREFIXES = ("", "[rank0]: ", "INFO trainer - ", "12/03/2025 10:41:07 - INFO - ", "0: ")


@cache
def pattern(phrase: str) -> re.Pattern[str]:
    """Reads the number of a phrase at the end of a line, whatever stands before it."""
    return re.compile(re.escape(phrase).replace(r"\{v\}", NUMBER) + "$", re.MULTILINE)


def say(name: str, value: object, rng: Random) -> str:
    """A line of the log that tells a number."""
    return rng.choice(PHRASES[name]).format(v=value)


def read(phrases: tuple[str, ...], log: str) -> tuple[int, str] | None:
    """Place and number of the first line that says one of the phrases."""
    found = [match for phrase in phrases if (match := pattern(phrase).search(log))]
    first = min(found, key=lambda match: match.start(), default=None)
    return None if first is None else (first.start(), first.group(1))


def losses(rng: Random) -> list[str]:
    """A few lines of an ordinary run, in the manner of one of three trainers."""
    style, loss = rng.randrange(3), rng.uniform(1.2, 2.4)
    lines = []
    for step in (10, 20, 30):
        loss *= rng.uniform(0.9, 0.99)
        norm = rng.uniform(0.3, 2)
        lines.append(
            (
                f"{{'loss': {loss:.4f}, 'grad_norm': {norm:.3f}, 'epoch': {step / 400}}}",
                f" iteration {step}/ 1200 | lm loss: {loss:.4E} | grad norm: {norm:.3f} |",
                f"step {step:>5}  loss {loss:.4f}  norm {norm:.3f}",
            )[style]
        )
    return lines
