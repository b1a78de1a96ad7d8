"""Turn a trained adapter into one that PEFT 0.9.0 loads.

Reads a folder with adapter_model.safetensors (float32 masters) and
adapter_config.json, as any PEFT version or wrapper left them; writes the same
two files: tensors in one type under bare names, config in keys that 0.9.0 knows.
No torch, so that a checkpoint can be published by the supervisor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.base.adapter_format import (
    ADAPTER_FILES,
    CONFIG_FILE,
    KEY_PREFIX,
    PARTS,
    WEIGHTS_FILE,
    file_name,
)
from pipeline.base.artifacts import (
    fsync_folder,
    read_json,
    replacing,
    require_free_space,
    sha256_file,
    write_json,
)
from pipeline.base.errors import UserError
from pipeline.base.safetensors_file import (
    BYTES_PER_ELEMENT,
    DamagedFile,
    Header,
    TensorInfo,
    read_header,
)
from pipeline.release.adapter_config import Config, rank_of, restrict, scale_of, value_fault
from pipeline.release.tensor_data import (
    CODES,
    FLOAT_BITS,
    Bits,
    Rounding,
    chunks,
    decode,
    encode,
    write_safetensors,
)
from pipeline.release.value_rules import ALL_LINEAR

WRAPPERS = re.compile(
    r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)
"""Segments that torch.compile, FSDP and activation checkpointing put into names."""

_PARTS = "|".join(sorted({re.escape(part) for parts in PARTS.values() for part in parts}))
MODULE = re.compile(rf"{re.escape(KEY_PREFIX)}(.+)\.(?:{_PARTS})$")


def bare_key(key: str) -> str:
    """A tensor's name without wrappers and without the adapter's name.

    `module.base_model.model.…q_proj.lora_A.default.weight` →
    `base_model.model.…q_proj.lora_A.weight`
    """
    key = WRAPPERS.sub("", key)
    while key.startswith("module."):
        key = key.removeprefix("module.")
    return file_name(key)


def export_folder(source: Path, target: Path, dtype: str) -> dict[str, Any]:
    """Write the two files of a publishable adapter into `target`.

    Args:
        source: folder with adapter_model.safetensors and adapter_config.json.
        target: made if missing; must hold nothing but an earlier export.
        dtype: "bfloat16", "float16" or "float32".

    Returns:
        The content of export.json: type, rank, elements, bytes, largest rounding
        errors, hashes, scale (or its smallest and largest), dropped config keys.

    Raises:
        UserError: the source is missing, damaged or not finite, a value does not
            fit `dtype`, or a config key would be lost that matters.
    """
    header = _read(source / WEIGHTS_FILE)
    renamed = _renamed(header, source / WEIGHTS_FILE)
    config, dropped = restrict(dict(read_json(source / CONFIG_FILE)), str(source / CONFIG_FILE))
    modules = sorted({found[1] for key in renamed if (found := MODULE.match(key))})
    if not modules:
        raise UserError(
            f"{source}: holds no tensor of an adapter", "Train with a `train.method` that PEFT has."
        )
    if config.get("target_modules") == ALL_LINEAR:
        config["target_modules"] = sorted({module.rpartition(".")[2] for module in modules})
    fault = value_fault(config)
    if fault:
        raise UserError(
            f"{source / CONFIG_FILE}: {fault}", "Train with a value that docs/contract.md allows."
        )
    elements = sum(info.elements for info in header.tensors.values())
    _make_room(target, elements * BYTES_PER_ELEMENT[CODES[dtype]])
    rounding = _convert(source / WEIGHTS_FILE, header, renamed, target / WEIGHTS_FILE, CODES[dtype])
    write_json(target / CONFIG_FILE, config)
    fsync_folder(target)
    return {
        "dtype": dtype,
        "rank": max(rank_of(config, module) for module in modules),
        "elements": elements,
        "tensors": len(renamed),
        "bytes": sum((target / name).stat().st_size for name in ADAPTER_FILES),
        "max_rounding_error": rounding.absolute,
        "max_relative_rounding_error": rounding.relative,
        "files": {name: sha256_file(target / name) for name in ADAPTER_FILES},
        "scale": _scale(config, modules),
        "target_modules": config.get("target_modules"),
        "dropped_config_keys": dropped,
    }


def _read(path: Path) -> Header:
    try:
        header = read_header(path)
    except FileNotFoundError:
        raise UserError(f"{path}: file not found", "Train first: `dvc repro train`.") from None
    except DamagedFile as error:
        raise UserError(f"{path}: damaged ({error})", "Train again from a checkpoint.") from None
    if not header.tensors:
        raise UserError(f"{path}: holds no tensor", "Gather the adapter before it is saved.")
    for name, info in header.tensors.items():
        if info.dtype not in FLOAT_BITS or not info.elements:
            raise UserError(
                f"{path}: tensor {name!r} is {info.dtype}{list(info.shape)}",
                "Save gathered float tensors (F32, F16 or BF16).",
            )
    return header


def _renamed(header: Header, path: Path) -> dict[str, TensorInfo]:
    """Bare name → tensor; two names that become one are refused."""
    renamed: dict[str, TensorInfo] = {}
    for key, info in header.tensors.items():
        bare = bare_key(key)
        if bare in renamed:
            raise UserError(f"{path}: two tensors are named {bare!r}", "Save one adapter a file.")
        renamed[bare] = info
    return renamed


def _make_room(target: Path, needed: int) -> None:
    target.mkdir(parents=True, exist_ok=True)
    surprise = sorted(path.name for path in target.iterdir() if path.name not in ADAPTER_FILES)
    if surprise:
        raise UserError(
            f"{target}: holds {', '.join(surprise)}", "Give a folder of its own to the export."
        )
    require_free_space(target, needed, "the exported adapter")


def _convert(
    source: Path, header: Header, renamed: dict[str, TensorInfo], target: Path, code: str
) -> Rounding:
    rounding = Rounding()

    def data(name: str) -> Iterator[Bits]:
        info = renamed[name]
        for bits in chunks(stream, header, info):
            before = decode(bits, info.dtype)
            if not np.isfinite(before).all():
                raise UserError(
                    f"{source}: tensor {name!r} is not finite",
                    "Resume from an earlier checkpoint with a lower `train.learning_rate`.",
                )
            encoded = encode(before, code)
            after = decode(encoded, code)
            if not np.isfinite(after).all():
                raise UserError(
                    f"{source}: tensor {name!r} reaches {float(np.abs(before).max()):g}, "
                    f"too large for {code}",
                    "Set `export.dtype` to float32.",
                )
            rounding.note(before, after, code)
            yield encoded

    shapes = {name: info.shape for name, info in renamed.items()}
    with source.open("rb") as stream, replacing(target) as temporary:
        write_safetensors(temporary, shapes, code, data)
    return rounding


def _scale(config: Config, modules: list[str]) -> float | list[float] | None:
    """The one factor on the update, or the smallest and the largest of several."""
    scales = (scale_of(config, module) for module in modules)
    found = sorted({scale for scale in scales if scale is not None})
    if not found:
        return None
    return found[0] if len(found) == 1 else [found[0], found[-1]]
