"""Tell one frozen base from another; the base enters the DAG through this alone.

The fingerprint covers the bytes of config, tokenizer, template and weights.
Weights are hashed once and remembered in runs/hashes.json by path, size, mtime
and inode; anything rewritten is hashed again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import canonical_hash, read_json, sha256_file, write_json
from pipeline.base.errors import UserError
from pipeline.base.safetensors_file import DamagedFile, read_header

HASH_CACHE = Path("runs/hashes.json")

SMALL_FILES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "chat_template.jinja", "special_tokens_map.json", "added_tokens.json",
    "model.safetensors.index.json",
)  # fmt: skip
"""What, besides `*.safetensors`, decides how the base behaves."""


SIZES = (
    "num_attention_heads", "num_key_value_heads", "num_hidden_layers", "hidden_size",
    "intermediate_size", "head_dim", "vocab_size", "max_position_embeddings",
)  # fmt: skip
"""Keys of config.json that must be whole numbers where they are given."""

SUPPORTED_MODELS = ("llama", "mistral", "qwen2", "qwen3")
"""Families that can be trained: plain attention, without sinks and soft caps."""


@dataclass(frozen=True)
class ModelShape:
    """What planning, packing and the contract need to know of a base."""

    architecture: str
    model_type: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied_embeddings: bool
    max_positions: int
    parameters: int
    """Elements of all tensors in the weight files."""
    weight_bytes: int


def read_config(base: Path) -> dict[str, Any]:
    """config.json of a base folder.

    Raises:
        UserError: the folder or the file is missing or broken.
    """
    if not base.is_dir():
        raise UserError(f"base.path: {base} is not a folder", "Give the folder with config.json.")
    path = base / "config.json"
    if not path.is_file():
        raise UserError(f"{path}: file not found", "Give a folder in the transformers format.")
    return dict(read_json(path, broken="Copy the base again."))


def weight_files(base: Path) -> list[Path]:
    """The safetensors files of a base, sorted; pickle-capable weights are refused.

    With an index, exactly the files that it names: some releases carry the same
    weights a second time in one consolidated file.
    """
    index = base / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(read_json(index, broken="Copy the base again.")["weight_map"].values()))
        missing = [name for name in names if not (base / name).is_file()]
        if missing:
            raise UserError(f"{base}: {missing[0]} is missing", "Copy the base again.")
        return [base / name for name in names]
    found = sorted(base.glob("*.safetensors"))
    if not found:
        others = sorted(p.name for p in base.glob("*.bin")) or "nothing"
        raise UserError(
            f"{base}: no *.safetensors weights (found: {others})",
            "Convert the base with `save_pretrained(..., safe_serialization=True)`.",
        )
    return found


def tensor_shapes(base: Path) -> dict[str, tuple[int, ...]]:
    """Name → shape of every tensor of the base, read from the headers alone."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in weight_files(base):
        try:
            header = read_header(path)
        except DamagedFile as error:
            raise UserError(f"{path}: damaged ({error})", "Copy the base again.") from None
        shapes.update({name: info.shape for name, info in header.tensors.items()})
    return shapes


def model_shape(base: Path) -> ModelShape:
    """Sizes of a decoder-only base, from config.json and the weight headers."""
    config = read_config(base)
    shapes = tensor_shapes(base)
    for key in SIZES:
        if config.get(key) is not None and type(config[key]) is not int:
            raise UserError(
                f"{base / 'config.json'}: {key} = {config[key]!r} is not a whole number",
                "Copy the base again.",
            )
    try:
        heads = int(config["num_attention_heads"])
        return ModelShape(
            architecture=str((config.get("architectures") or ["unknown"])[0]),
            model_type=str(config["model_type"]),
            layers=int(config["num_hidden_layers"]),
            hidden=int(config["hidden_size"]),
            intermediate=int(config["intermediate_size"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
            vocabulary=int(config["vocab_size"]),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            max_positions=int(config.get("max_position_embeddings", 0)),
            parameters=sum(_elements(shape) for shape in shapes.values()),
            weight_bytes=sum(path.stat().st_size for path in weight_files(base)),
        )
    except KeyError as error:
        raise UserError(
            f"{base / 'config.json'}: missing key {error}", "Use a decoder-only text model."
        ) from None


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for side in shape:
        count *= side
    return count


class HashCache:
    """SHA-256 of large files, remembered between runs."""

    def __init__(self, path: Path = HASH_CACHE) -> None:
        self.path = path
        self.known: dict[str, Any] = _read_or_empty(path)

    def sha256(self, file: Path) -> str:
        """Hash of a file, from memory when size, mtime and inode are unchanged."""
        status = file.stat()
        stamp = [status.st_size, status.st_mtime_ns, status.st_ino]
        key = str(file.resolve())
        entry = self.known.get(key)
        if entry is None or entry["stamp"] != stamp:
            entry = {"stamp": stamp, "sha256": sha256_file(file)}
            self.known[key] = entry
            write_json(self.path, self.known)
        return str(entry["sha256"])


def _read_or_empty(path: Path) -> dict[str, Any]:
    # A torn cache only costs the hashing again.
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return {}
    return known if isinstance(known, dict) else {}


def fingerprint(base: Path, cache: HashCache) -> dict[str, Any]:
    """`{"fingerprint": hex, "files": [{"name", "bytes", "sha256"}]}` of a base folder."""
    read_config(base)
    names = [name for name in SMALL_FILES if (base / name).is_file()]
    names += [path.name for path in weight_files(base)]
    files = [
        {"name": n, "bytes": (base / n).stat().st_size, "sha256": cache.sha256(base / n)}
        for n in names
    ]
    return {"fingerprint": canonical_hash(files), "files": files}
