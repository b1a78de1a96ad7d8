"""What a contract check sees and says: the case, a finding, a fault.

A `Case` is one adapter on one base; it reads each file once and remembers what
it read. A check gets the case and returns a `Finding`, or raises `Broken`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.base.adapter_format import CONFIG_FILE, KEY_PREFIX, PARTS, WEIGHTS_FILE
from pipeline.base.artifacts import read_json
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import read_config, tensor_shapes
from pipeline.base.params import VerifyParams
from pipeline.base.safetensors_file import DamagedFile, Header, TensorInfo, read_header, told
from pipeline.release.adapter_config import Config
from pipeline.release.tensor_data import Scan, scan

Figure = str | int | float | None

BASE_RECORD = Path("work/prepare/base.json")
MAX_CONFIG_BYTES = 1_048_576
MAX_HEADER_BYTES = 8_388_608
"""Some 50,000 tensors; what a longer header describes is no adapter of a contract."""
MAX_METADATA_CHARACTERS = 4096
"""Writers note a format and a version; more would be a place to hide things in."""

_ANY_PART = "|".join(sorted({re.escape(part) for parts in PARTS.values() for part in parts}))
TENSOR_NAME = re.compile(rf"{re.escape(KEY_PREFIX)}(?P<module>.+)\.(?P<part>{_ANY_PART})")
"""Names that PEFT 0.9.0 gives the tensors of an adapter, of whatever type."""

A, B, MAGNITUDE = "lora_A.weight", "lora_B.weight", "lora_magnitude_vector"


class Broken(Exception):
    """The adapter breaks one term of the contract."""

    def __init__(self, detail: str, figure: Figure = None, limit: Figure = None) -> None:
        super().__init__(detail)
        self.detail, self.figure, self.limit = detail, figure, limit


@dataclass(frozen=True)
class Finding:
    """What a check that did not fail has measured."""

    figure: Figure = None
    limit: Figure = None
    detail: str = ""
    applicable: bool = True


def recorded_base() -> Path:
    """The base that this project's data was made for.

    Raises:
        UserError: no data was prepared yet.
    """
    if not BASE_RECORD.is_file():
        raise UserError(f"{BASE_RECORD}: file not found", "Run `make train`, or give BASE=folder.")
    return Path(read_json(BASE_RECORD)["path"])


def not_applicable(why: str) -> Finding:
    """The term says nothing about this adapter."""
    return Finding(detail=why, applicable=False)


@dataclass
class Case:
    """One adapter folder, the base it claims to fit, and the limits that hold."""

    folder: Path
    base: Path
    limits: VerifyParams
    links_allowed: bool = False
    """DVC may link files of its outs to its cache; a published folder holds its own bytes."""
    trained_on: dict[str, str] | None = None
    """File that says so → fingerprint of the base that it names; None for a foreign adapter."""
    summary_required: bool = False
    """A published adapter must have its run_summary.json beside it."""

    @cached_property
    def config(self) -> Config:
        """adapter_config.json: strict JSON, one object, no key twice."""
        path = self.folder / CONFIG_FILE
        size = path.stat().st_size
        if size > MAX_CONFIG_BYTES:
            raise Broken(f"{CONFIG_FILE} has {size} bytes", size, MAX_CONFIG_BYTES)
        try:
            value = json.loads(
                path.read_bytes().decode("utf-8"),
                object_pairs_hook=_no_duplicates,
                parse_constant=_no_constant,
            )
        except (ValueError, RecursionError) as error:
            raise Broken(f"{CONFIG_FILE} is not JSON ({told(str(error))})") from None
        if not isinstance(value, dict):
            raise Broken(f"{CONFIG_FILE} holds {type(value).__name__}, not an object")
        return value

    @property
    def kind(self) -> str:
        """`peft_type` of a config that passed the term of that name."""
        return str(self.config["peft_type"])

    @cached_property
    def header(self) -> Header:
        """Header of adapter_model.safetensors; every tensor holds at least one element."""
        try:
            header = read_header(self.folder / WEIGHTS_FILE, MAX_HEADER_BYTES)
        except DamagedFile as error:
            raise Broken(f"{WEIGHTS_FILE}: {error}") from None
        if not header.tensors:
            raise Broken(f"{WEIGHTS_FILE} holds no tensor", 0, "at least 1")
        for name, info in header.tensors.items():
            if not info.elements:
                raise Broken(f"tensor {told(name)} of shape {told(list(info.shape))} is empty")
        noted = sum(len(key) + len(value) for key, value in header.metadata.items())
        if noted > MAX_METADATA_CHARACTERS:
            raise Broken(
                f"{WEIGHTS_FILE}: __metadata__ of {noted} characters",
                noted,
                MAX_METADATA_CHARACTERS,
            )
        return header

    @cached_property
    def modules(self) -> dict[str, dict[str, TensorInfo]]:
        """Adapted module → its tensors by part; foreign names are left out."""
        found: dict[str, dict[str, TensorInfo]] = {}
        for name, info in sorted(self.header.tensors.items()):
            match = TENSOR_NAME.fullmatch(name)
            if match:
                found.setdefault(match["module"], {})[match["part"]] = info
        return found

    @cached_property
    def base_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name → shape of every tensor of the base."""
        return tensor_shapes(self.base)

    @cached_property
    def base_modules(self) -> set[str]:
        """Every dotted prefix of the base's tensor names: containers and leaves."""
        found: set[str] = set()
        for name in self.base_shapes:
            module = name.rpartition(".")[0]
            while module and module not in found:
                found.add(module)
                module = module.rpartition(".")[0]
        return found

    @cached_property
    def tied(self) -> bool:
        """Whether the base's output head shares the weights of its embedding."""
        return bool(read_config(self.base).get("tie_word_embeddings", False))

    @cached_property
    def scans(self) -> dict[str, Scan]:
        """Tensor name → what its bits say; reads the whole file once."""
        with (self.folder / WEIGHTS_FILE).open("rb") as stream:
            return {
                name: scan(stream, self.header, info) for name, info in self.header.tensors.items()
            }


class Rule(NamedTuple):
    """One term of the contract."""

    id: str
    what: str
    needs: tuple[str, ...]
    """Rules that must hold before this one can be judged."""
    check: Callable[[Case], Finding]


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise Broken(f"{CONFIG_FILE}: key {told(key)} occurs twice")
        seen[key] = value
    return seen


def _no_constant(name: str) -> None:
    raise Broken(f"{CONFIG_FILE}: {name} is not JSON")
