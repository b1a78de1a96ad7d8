"""Packed data and a training job for tests, without the stages before them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pipeline.base.artifacts import write_json
from pipeline.base.params import Params
from pipeline.learning.job import Job, describe

SEQUENCE_TOKENS = 64


def write_packed(folder: Path, sequences: int = 12, vocabulary: int = 400, seed: int = 0) -> Path:
    """Random documents of 5 to 30 tokens, packed in order, about half of each trained."""
    generator = np.random.default_rng(seed)
    lengths: list[int] = []
    per_sequence: list[int] = []
    for _ in range(sequences):
        room, documents = SEQUENCE_TOKENS, 0
        while room >= 5:
            length = int(generator.integers(5, min(30, room) + 1))
            lengths.append(length)
            room, documents = room - length, documents + 1
        per_sequence.append(documents)
    tokens = generator.integers(3, vocabulary, sum(lengths)).astype(np.int32)
    trained = np.concatenate([np.arange(n) >= n // 2 for n in lengths])
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "tokens.npy", tokens)
    np.save(folder / "trained.npy", trained)
    np.save(folder / "document_lengths.npy", np.array(lengths, dtype=np.int32))
    np.save(folder / "sequence_documents.npy", np.array(per_sequence, dtype=np.int32))
    manifest = {
        "sequence_tokens": SEQUENCE_TOKENS,
        "sequences": sequences,
        "documents": len(lengths),
        "tokens": int(tokens.size),
        "trained_tokens": int(trained.sum()),
    }
    write_json(folder / "manifest.json", manifest)
    return folder


def training_plan(**changes: Any) -> dict[str, Any]:
    """The `training` part of plan.json for the tiny base on one CPU thread."""
    plan: dict[str, Any] = {
        "device": "cpu",
        "ranks": 1,
        "micro_batch_sequences": 2,
        "accumulation": 2,
        "sequence_tokens": SEQUENCE_TOKENS,
        "sequences_per_step": 4,
        "gradient_checkpointing": False,
        "loss_chunk_positions": 64,
        "compute_dtype": "float32",
        "base_dtype": "float32",
        "quantization": "none",
        "threads": 1,
        "steps_by_clock": None,
        "seconds_by_clock": 3600.0,
    }
    return {**plan, **changes}


def make_job(base: Path, data: Path, params: Params, **plan: Any) -> Job:
    """A described job, its folder under the current folder's runs/."""
    prepared = {"path": str(base), "fingerprint": "test-base"}
    job = describe(params.train, prepared, {"training": training_plan(**plan)}, data)
    job.run.mkdir(parents=True, exist_ok=True)
    job.write()
    return job
