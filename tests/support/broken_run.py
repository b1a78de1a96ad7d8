"""A run's folder as the trainer leaves it, without training: figures, settings, logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.packed import training_plan
from tests.support.settings import make_params

Row = dict[str, Any]


def rates(steps: int, peak: float = 1e-3, warmup: float = 0.05) -> list[float]:
    """The learning rate of each step: taken at its middle, up and linearly down."""
    shares = [(step + 0.5) / steps for step in range(steps)]
    return [peak * (s / warmup if s < warmup else (1 - s) / (1 - warmup)) for s in shares]


def healthy(steps: int = 80) -> list[Row]:
    """Figures of a run that learns."""
    return [
        {
            "step": step + 1,
            "loss": 0.6 + 1.4 * 0.96**step + 0.02 * (-1) ** step,
            "token_accuracy": 0.6,
            "learning_rate": rate,
            "grad_norm": 0.5 + 0.1 * (step % 3),
            "tokens": 900 * (step + 1),
            "tokens_per_second": 1200.0 + step % 5,
            "memory_gib": 1.5,
        }
        for step, rate in enumerate(rates(steps))
    ]


def changed(change: Callable[[int, Row], Row], steps: int = 80) -> list[Row]:
    """Healthy rows with some figures replaced; `change` gets the step from 1 and the row."""
    return [{**row, **change(row["step"], row)} for row in healthy(steps)]


def write_run(
    root: Path,
    rows: list[Row] | None = None,
    *,
    plan: dict[str, Any] | None = None,
    train: dict[str, Any] | None = None,
    files: dict[str, str] | None = None,
    manifest: dict[str, Any] | None = None,
    base: dict[str, Any] | None = None,
    lengths: int = 40,
    trained: int = 30000,
) -> Path:
    """Write a run below `root`; returns runs/<key>.

    Args:
        files: further files of the run, by name.
        manifest: changes of the packed data's manifest.
        base: changes of the base's config.json; None as a value takes a key away.
        lengths: documents of which the arrays hold lengths.
        trained: tokens that the arrays mark as trained.
    """
    rows = healthy() if rows is None else rows
    run, data, model = root / "runs/0123", root / "work/tokenize", root / "base"
    for folder in (run, data, model):
        folder.mkdir(parents=True, exist_ok=True)
    settings = {f"train.{key}": value for key, value in (train or {}).items()}
    job = {
        "run": "runs/0123",
        "base": "base",
        "base_fingerprint": "f" * 64,
        "data": "work/tokenize",
        "training": training_plan(
            **{"accumulation": 4, "micro_batch_sequences": 2, **(plan or {})}
        ),
        "train": make_params(**settings).train.model_dump(),
        "first_total": 80,
        "most_steps": 80,
    }
    told = {"documents": 40, "trained_tokens": 30000, **(manifest or {})}
    config = {"model_type": "qwen3", "vocab_size": 151936, "rope_theta": 1000000.0,
              "max_position_embeddings": 40960, **(base or {})}  # fmt: skip
    config = {key: value for key, value in config.items() if value is not None}
    (run / "job.json").write_text(json.dumps(job, indent=2))
    (run / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (data / "manifest.json").write_text(json.dumps(told, indent=2))
    (model / "config.json").write_text(json.dumps(config, indent=2))
    np.save(data / "document_lengths.npy", np.full(lengths, 1000, dtype=np.int32))
    np.save(data / "trained.npy", np.arange(40000) < trained)
    for name, text in (files or {}).items():
        path = run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return run
