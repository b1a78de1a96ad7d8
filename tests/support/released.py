"""A project folder in which everything up to `export` has been done."""

from __future__ import annotations

from pathlib import Path

from pipeline.base.artifacts import mark_complete, write_json
from pipeline.base.fingerprint import HashCache, fingerprint
from pipeline.export import main as export
from tests.support.adapters import write_adapter
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base


def write_project(root: Path) -> Path:
    """params.yaml, a base, a trained and an exported adapter; the current folder is `root`."""
    base = write_tiny_base(root / "base")
    found = fingerprint(base, HashCache(root / "runs/hashes.json"))
    params = make_params(root, **{"base.path": str(base)})
    write_json(root / "work/prepare/base.json", {"path": str(base), **found})
    write_adapter(root / "work/train/adapter", base)
    checkpoint = root / "runs/k/checkpoint-4"
    checkpoint.mkdir(parents=True)
    mark_complete(checkpoint, {"step": 4})
    train = {
        "run_key": "k",
        "method_name": "lora",
        "devices": ["cpu"],
        "steps": 4,
        "steps_planned": 4,
        "ended_by": "steps",
        "attempts": 2,
        "base_fingerprint": found["fingerprint"],
    }
    write_json(root / "work/train/train.json", train)
    export(params)
    return root
