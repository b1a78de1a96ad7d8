"""Training speed and memory on Qwen3-14B's shapes, beside what the plan predicts.

    python -m bench.train_shapes /scratch/folder [--steps 5]

Random weights of the real sizes are written once (28 GB); packed sequences of
random tokens are trained with loss on every token, rank 64 on all linear layers,
full recomputation, through the same supervisor and worker as a real run. Needs a
CUDA device with 60 GiB free and 35 GB of disk. Figures go to bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from pipeline.base.artifacts import write_json
from pipeline.base.fingerprint import model_shape
from pipeline.base.params import load_params
from pipeline.hardware.planner import make_plans
from pipeline.hardware.probe import probe
from pipeline.learning.checkpoint import as_rows
from pipeline.learning.job import describe
from pipeline.learning.supervisor import Supervisor

ROOT = Path(__file__).resolve().parent.parent
PRESET = ROOT / "presets/qwen3-14b-h200x1.yaml"
LENGTH = 16_384
SEQUENCES = 12
SHAPES: dict[str, tuple[int, int, str]] = {
    "1 document": (1, 1, "none"),
    "8 documents": (8, 1, "none"),
    "4 documents, nf4": (4, 1, "nf4"),
    "1 document, 2 cards": (1, 2, "none"),
}
"""Name → documents a sequence, ranks, storage of the base."""


def write_base(folder: Path) -> Path:
    """Random bf16 weights of Qwen3-14B's sizes."""
    if (folder / "config.json").is_file():
        return folder
    config = transformers.Qwen3Config(
        vocab_size=151_936,
        hidden_size=5120,
        intermediate_size=17_408,
        num_hidden_layers=40,
        num_attention_heads=40,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40_960,
        tie_word_embeddings=False,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(str(folder), max_shard_size="8GB")
    return folder


def write_data(folder: Path, documents: int) -> Path:
    """Packed sequences of equal documents, every token trained."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = np.random.default_rng(0).integers(10, 150_000, LENGTH * SEQUENCES)
    np.save(folder / "tokens.npy", tokens.astype(np.int32))
    np.save(folder / "trained.npy", np.ones(tokens.size, dtype=bool))
    lengths = np.full(documents * SEQUENCES, LENGTH // documents, dtype=np.int32)
    np.save(folder / "document_lengths.npy", lengths)
    np.save(folder / "sequence_documents.npy", np.full(SEQUENCES, documents, dtype=np.int32))
    figures = {"tokens": int(tokens.size), "trained_tokens": int(tokens.size)}
    bucket = {"tier": "all", "band": LENGTH, "first": 0, "bins": SEQUENCES, **figures}
    bucket["documents"] = int(lengths.size)
    write_json(folder / "manifest.json", {"sequences": SEQUENCES, **figures, "buckets": [bucket]})
    return folder


def measure(base: Path, name: str, training: dict[str, Any], steps: int) -> str:
    """Run one shape; a line of the table."""
    documents, ranks, storage = SHAPES[name]
    params = load_params(PRESET).train.model_copy(update={"steps": steps, "rank": 64, "alpha": 64})
    changes = {"ranks": ranks, "sequences_per_step": ranks, "quantization": storage}
    changes |= {"micro_batch_sequences": 1, "accumulation": 1, "gradient_checkpointing": True}
    data = write_data(Path(f"data-{documents}"), documents)
    prepared = {"path": str(base), "fingerprint": "random"}
    job = describe(params, prepared, {"training": {**training, **changes}}, data)
    job.run.mkdir(parents=True, exist_ok=True)
    job.write()
    Supervisor(job, lambda _: None, lambda: None).run(time.time() + 3600)
    rows = as_rows(job.steps_file)
    seconds = statistics.median(
        after["seconds"] - before["seconds"] for before, after in itertools.pairwise(rows[1:])
    )
    rate = LENGTH * ranks / seconds
    return f"| {name} | {rate:,.0f} | {rows[-1]['memory_gib']:.1f} |"


def main() -> None:
    """Measure every shape that the devices allow and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    )
    os.chdir(arguments.folder)
    base = write_base(Path("base"))
    plan = make_plans(model_shape(base), probe(), load_params(PRESET)).training
    lines = [f"plan: {plan['time']['tokens_per_second']:,.0f} tokens/s, {plan['time']['source']}"]
    lines += [f"plan: {plan['memory_needed_gib']:.1f} GiB", "| shape | tokens/s | peak GiB |"]
    for name, (_, ranks, _) in SHAPES.items():
        if ranks <= torch.cuda.device_count():
            lines.append(measure(base, name, plan["training"], arguments.steps))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
