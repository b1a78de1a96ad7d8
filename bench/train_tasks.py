"""Tasks of bench.train, their packed data, and the results that both kinds of child write.

No torch: the parent, `bench.train_ours` and `bench.train_peers` import it. A task is `check`
(losses and leaks on a real text) or a shape, `LENGTHxDOCUMENTS` or `DOCUMENTSxLENGTH`. Results
lie in OUT/results/WAY.TASK.json, whole or not there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.base.artifacts import read_json, write_json
from pipeline.base.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
CHECK = "check"
CHECK_STEPS = 4
"""Losses that are compared: of the base, and after one, two and three updates."""
WARM_UPS = 2
"""Steps that compile and tune; left out of the median."""
SEQUENCES = 8

Document = tuple[npt.NDArray[np.int64], bool]
"""Token ids, and whether they carry loss (all but the first one)."""


@dataclass(frozen=True)
class Recipe:
    """What all ways have in common."""

    rank: int = 64
    alpha: int = 64
    learning_rate: float = 5e-4
    beta1: float = 0.9
    beta2: float = 0.99
    clip_norm: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Asked:
    """Command line of a child."""

    out: Path
    way: str
    tasks: list[str]
    steps: int
    recipe: Recipe


def child_arguments(description: str | None) -> Asked:
    """The command line that `bench.train` gives its children."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("out", type=Path)
    parser.add_argument("way")
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    given = parser.parse_args()
    recipe = Recipe(rank=given.rank, alpha=given.rank)
    return Asked(given.out.resolve(), given.way, given.tasks, given.steps, recipe)


def lengths_of(shape: str) -> list[int]:
    """Tokens of each document: the larger number is the length, the smaller one how many.

    Raises:
        UserError: not two whole numbers with an x between.
    """
    parts = shape.split("x")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UserError(
            f"--shapes: {shape!r} is no shape", "Write LENGTHxDOCUMENTS, such as 16384x1 or 8x2048."
        )
    count, length = sorted(int(part) for part in parts)
    return [length] * count


def result_file(out: Path, way: str, task: str) -> Path:
    """Where the result of one task of one way lies."""
    return out / "results" / f"{way}.{task}.json"


def read_result(out: Path, way: str, task: str) -> dict[str, Any] | None:
    """The result, or None."""
    path = result_file(out, way, task)
    found: dict[str, Any] | None = read_json(path) if path.is_file() else None
    return found


def write_result(out: Path, way: str, task: str, figures: dict[str, Any]) -> None:
    """Keep the result of a task."""
    path = result_file(out, way, task)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"way": way, "task": task, **figures})


def read_machine(out: Path) -> dict[str, Any]:
    """What `bench.train_base` found: kind of device, ceiling, versions."""
    found: dict[str, Any] = read_json(out / "machine.json")
    return found


def speed_figures(
    seconds: Sequence[float], losses: Sequence[float], peak_gib: float, tokens: int
) -> dict[str, Any]:
    """The result of a shape.

    Args:
        seconds: of every step, warm-ups included.
        tokens: of one step.
    """
    return {
        "tokens": tokens,
        "step_seconds": [round(one, 4) for one in seconds],
        "losses": [round(one, 5) for one in losses],
        "peak_gib": round(peak_gib, 2),
    }


def write_packed(folder: Path, sequences: Sequence[Sequence[Document]]) -> Path:
    """The files of the tokenize stage that training reads; manifest.json comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = [one for inside in sequences for one in inside]
    lengths = np.array([ids.size for ids, _ in documents], dtype=np.int32)
    trained = [np.arange(ids.size) > 0 if learnt else np.zeros(ids.size, bool)
               for ids, learnt in documents]  # fmt: skip
    arrays = {
        "tokens": np.concatenate([ids for ids, _ in documents]).astype(np.int32),
        "trained": np.concatenate(trained),
        "document_lengths": lengths,
        "sequence_documents": np.array([len(inside) for inside in sequences], dtype=np.int32),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    figures: dict[str, Any] = {"tokens": int(lengths.sum()), "documents": int(lengths.size)}
    figures["trained_tokens"] = int(arrays["trained"].sum())
    band = int(lengths.sum()) // len(sequences)
    bucket = {"tier": "all", "band": band, "first": 0, "bins": len(sequences), **figures}
    whole = {"sequence_tokens": band, "sequences": len(sequences), **figures, "buckets": [bucket]}
    write_json(folder / "manifest.json", whole)
    return folder


def speed_data(out: Path, shape: str, vocabulary: int) -> Path:
    """Sequences of random tokens in documents of this shape, loss on every token."""
    folder = out / "data" / shape
    if (folder / "manifest.json").is_file():
        return folder
    generator = np.random.default_rng(0)
    lengths = lengths_of(shape)
    sequences = [
        [(generator.integers(3, vocabulary, length), True) for length in lengths]
        for _ in range(SEQUENCES)
    ]
    return write_packed(folder, sequences)


def check_data(out: Path, text_ids: Sequence[int], length: int) -> tuple[Path, Path]:
    """Packed folders of the loss check and of the leak check.

    The first has one sequence of two documents of `length` tokens of the text. In the second
    only the later document carries loss, and the earlier one differs between two sequences:
    where documents do not see each other, both have the same loss.
    """
    ids = np.resize(np.array(text_ids, dtype=np.int64), 3 * length)
    first, second, other = ids.reshape(3, length)
    losses = write_packed(out / "data" / "check", [[(first, True), (second, True)]])
    pairs: list[list[Document]] = [
        [(one, False), (second, True)] for one in (first, other[::-1].copy())
    ]
    return losses, write_packed(out / "data" / "leak", pairs)
