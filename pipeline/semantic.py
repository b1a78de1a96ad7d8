"""Stage semantic: find protected problems that training problems tell in other words.

Reads  work/filter/kept.jsonl, work/filter/panel.jsonl, work/prepare/protected.json, the
       protected files that it lists and the folder of `semantic.model`
Writes work/semantic/: neighbours.jsonl (one pair a line: id, set, protected, cosine), then
       semantic.json; an empty list when `semantic.model` is null
Run    dvc repro semantic    or    python -m pipeline.semantic

Judges nothing: what a cosine means is for the stage decontaminate to say. Loads torch
only if there is a model.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import Json, read_json, write_json, write_jsonl
from pipeline.base.fingerprint import HashCache
from pipeline.base.params import Params
from pipeline.base.stage import run_stage
from pipeline.corpus.execution.scratch import forget_scratch, scratch_folder
from pipeline.corpus.overlap.protected import PANEL, load_sets
from pipeline.corpus.overlap.sentence_model import SentenceModel, find_model

KEPT = Path("work/filter/kept.jsonl")
PROTECTED = Path("work/prepare/protected.json")
OUT = Path("work/semantic")


def main(params: Params) -> None:
    """Embed both sides, keep the pairs that are near, say what was done."""
    if params.semantic.model is None:
        write_jsonl(OUT / "neighbours.jsonl", [])
        write_json(OUT / "semantic.json", {"model": None, "problems": 0, "pairs": 0})
        return
    cache = HashCache()
    model = find_model(params.semantic.model, cache)
    # These load torch, which no run without a model needs.
    from pipeline.corpus.overlap.embedding import cards, choose_device
    from pipeline.corpus.overlap.neighbours import Search

    device = choose_device(params.semantic.device)
    protected = read_json(PROTECTED)
    scratch = scratch_folder("semantic", _decides(params, model, device, protected, cache))
    search = Search(model, params.semantic, params.executor, device, cards(), scratch)
    found = search.run(KEPT, load_sets(protected))
    pairs = write_jsonl(OUT / "neighbours.jsonl", found.rows())
    settings = {
        "device": device,
        "min_cosine": params.semantic.min_cosine,
        "neighbours": params.semantic.neighbours,
    }
    report = model.summary() | settings | {"pairs": pairs} | found.figures
    write_json(OUT / "semantic.json", report)
    forget_scratch(scratch)
    print(
        f"semantic: {found.figures['problems']:,} problems, {pairs:,} pairs with cosine "
        f"{params.semantic.min_cosine} or more",
        flush=True,
    )


def _decides(
    params: Params, model: SentenceModel, device: str, protected: list[Any], cache: HashCache
) -> Json:
    """All that decides a shard's content, besides the code."""
    return {
        "kept": cache.sha256(KEPT),
        "panel": cache.sha256(PANEL),
        "protected": protected,
        "model": [model.folder, model.fingerprint],
        "limits": [params.semantic.min_cosine, params.semantic.neighbours],
        "device": device,
        "shard_mib": params.executor.shard_mib,
        "libraries": [importlib.metadata.version(name) for name in ("torch", "transformers")],
    }


if __name__ == "__main__":
    raise SystemExit(run_stage("semantic", main))
