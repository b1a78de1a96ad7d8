"""Packed data and a training job for tests, without the stages before them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.base.artifacts import write_json, write_jsonl
from pipeline.base.params import Params
from pipeline.learning.job import Job, describe

SEQUENCE_TOKENS = 64


TWO_TIERS = [("easy", 32, 6), ("easy", 64, 3), ("hard", 32, 4), ("hard", 64, 5)]
"""Buckets (tier, band, bins) for a curriculum of sequences of 32 and 64 tokens."""


def write_packed(
    folder: Path,
    sequences: int = 12,
    vocabulary: int = 400,
    seed: int = 0,
    buckets: Sequence[tuple[str, int, int]] | None = None,
) -> Path:
    """Random documents of 5 to 30 tokens, packed in order, about half of each trained.

    Args:
        buckets: (tier, band, bins) of each; None is one bucket of `sequences` bins, as
            data are packed without a curriculum.
    """
    generator = np.random.default_rng(seed)
    lengths: list[int] = []
    per_sequence: list[int] = []
    rows: list[dict[str, Any]] = []
    for tier, band, bins in buckets or [("all", SEQUENCE_TOKENS, sequences)]:
        before = len(lengths)
        rows.append({"tier": tier, "band": band, "first": len(per_sequence), "bins": bins})
        for _ in range(bins):
            room, documents = band, 0
            while room >= 5:
                length = int(generator.integers(5, min(30, room) + 1))
                lengths.append(length)
                room, documents = room - length, documents + 1
            per_sequence.append(documents)
        rows[-1] |= {"documents": len(lengths) - before, "tokens": sum(lengths[before:])}
        rows[-1]["trained_tokens"] = sum(n - n // 2 for n in lengths[before:])
    tokens = generator.integers(3, vocabulary, sum(lengths)).astype(np.int32)
    trained = np.concatenate([np.arange(n) >= n // 2 for n in lengths])
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "tokens.npy", tokens)
    np.save(folder / "trained.npy", trained)
    np.save(folder / "document_lengths.npy", np.array(lengths, dtype=np.int32))
    np.save(folder / "sequence_documents.npy", np.array(per_sequence, dtype=np.int32))
    sources = [f"source-{number % 3}.jsonl" for number in range(len(lengths))]
    write_jsonl(folder / "documents.jsonl", ({"source": one} for one in sources))
    manifest = {
        "sequence_tokens": max(row["band"] for row in rows),
        "sequences": len(per_sequence),
        "documents": len(lengths),
        "tokens": int(tokens.size),
        "trained_tokens": int(trained.sum()),
        "buckets": rows,
    }
    write_json(folder / "manifest.json", manifest)
    return folder


TWO_STAGES = [
    {"sequence_tokens": 32, "share": 0.5, "tiers": {"easy": 0.7, "hard": 0.3}},
    {"sequence_tokens": 64, "share": 0.5, "tiers": {"easy": 0.2, "hard": 0.8}},
]
"""Stages of a curriculum over `TWO_TIERS`, as plan.json has them."""


def training_plan(**changes: Any) -> dict[str, Any]:
    """The `training` part of plan.json for the tiny base on one CPU thread."""
    plan: dict[str, Any] = {
        "device": "cpu",
        "ranks": 1,
        "micro_batch_sequences": 2,
        "accumulation": 2,
        "sequence_tokens": SEQUENCE_TOKENS,
        "sequences_per_step": 4,
        "stages": [{"sequence_tokens": SEQUENCE_TOKENS, "share": 1.0, "tiers": None}],
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
