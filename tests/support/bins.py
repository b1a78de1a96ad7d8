"""A folder of packed bins made by hand: the files of tokenize, with the documents one wants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.base.artifacts import write_json, write_jsonl
from pipeline.packing.files import SCHEMA_VERSION

Made = tuple[Sequence[int], Sequence[bool]]
"""Token ids of a document and its mask."""


def learnt_half(length: int, seed: int = 0, vocabulary: int = 400) -> Made:
    """A document of random ids whose second half is learnt."""
    ids = np.random.default_rng([seed, length]).integers(3, vocabulary, length)
    return ids.tolist(), [place >= (length + 1) // 2 for place in range(length)]


def write_bins(
    folder: Path,
    bins: Sequence[Sequence[Made]],
    band: int,
    rows: Sequence[dict[str, Any]] | None = None,
    buckets: Sequence[tuple[str, int]] = (),
    **manifest: Any,
) -> Path:
    """Write the arrays, documents.jsonl and manifest.json.

    Args:
        rows: fields of each document's line that are not the usual ones.
        buckets: (tier, bins) of each bucket; one of tier `all` by default.
        manifest: further fields of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    documents = [one for inside in bins for one in inside]
    homes = [number for number, inside in enumerate(bins) for _ in inside]
    lengths = [len(ids) for ids, _ in documents]
    trained = [int(sum(mask)) for _, mask in documents]
    arrays = {
        "tokens": np.concatenate([np.array(ids, dtype=np.int32) for ids, _ in documents]),
        "trained": np.concatenate([np.array(mask, dtype=np.bool_) for _, mask in documents]),
        "document_lengths": np.array(lengths, dtype=np.int32),
        "sequence_documents": np.array([len(inside) for inside in bins], dtype=np.int32),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    lines = []
    for number, home in enumerate(homes):
        line = {"id": f"id-{number}", "source": "s", "origin": f"s.jsonl:{number + 1}"}
        line |= {"tier": "easy", "variant": "main", **(rows[number] if rows else {})}
        lines.append({**line, "length": lengths[number], "trained": trained[number]})
        lines[-1]["sequence"] = home
    write_jsonl(folder / "documents.jsonl", lines)
    described, first = [], 0
    for tier, count in buckets or [("all", len(bins))]:
        inside = [number for number, home in enumerate(homes) if first <= home < first + count]
        bucket = {"tier": tier, "band": band, "first": first, "bins": count}
        bucket |= {"documents": len(inside), "tokens": sum(lengths[n] for n in inside)}
        described.append({**bucket, "trained_tokens": sum(trained[n] for n in inside)})
        first += count
    whole: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "sequence_tokens": band,
        "sequences": len(bins),
        "documents": len(documents),
        "tokens": sum(lengths),
        "trained_tokens": sum(trained),
        "fill": sum(lengths) / (band * len(bins)),
        "buckets": described,
    }
    write_json(folder / "manifest.json", {**whole, **manifest})
    return folder
