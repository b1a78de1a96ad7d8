"""What may be asked of `train.method` and `train.optimizer`, said before anything is trained.

PEFT 0.9.0 must be able to load what training makes, and load it right. Every
combination that it cannot, or that has no meaning, is named here with the way
out. The plan calls `check_recipe` once devices, compute type and storage are
known. Pure; no torch. Facts: PEFT 0.9.0's sources, and trials of them.
docs/methods.md has the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.base.adapter_format import FEEDFORWARD, PEFT_TYPES
from pipeline.base.adapter_shapes import elements
from pipeline.base.errors import UserError

STORAGE: dict[str, frozenset[str]] = {
    "lora": frozenset({"none", "fp8", "int8", "nf4"}),
    "dora": frozenset({"none"}),
    "adalora": frozenset({"none", "nf4"}),
    "ia3": frozenset({"none"}),
    "loha": frozenset({"none"}),
    "lokr": frozenset({"none"}),
    "oft": frozenset({"none"}),
}
"""Method → forms of the base on which it can be trained."""

WHY_NOT = {
    "dora": "PEFT 0.9 has no DoRA on a quantised base; 0.10 is the first that has",
    "adalora": "PEFT 0.9 reads an attribute that bitsandbytes lost with 0.45",
    "ia3": "PEFT 0.9 mixes types on a quantised base and fails outside of autocast",
    "loha": "PEFT adds LoHa to plain weights only",
    "lokr": "PEFT adds LoKr to plain weights only",
    "oft": "PEFT 0.9 turns plain weights only",
}
"""Method → why not on a form that STORAGE leaves out."""

NOT_FP8 = "the fp8 base is part of the fast path, which is for LoRA"

RANK_PATTERNS = frozenset({"lora", "dora", "loha", "lokr", "oft"})
ALPHA_PATTERNS = frozenset({"lora", "dora", "loha", "lokr"})
INPUT_DROPOUT = frozenset({"lora", "dora", "adalora"})
ZERO_B = frozenset({"lora", "dora"})
"""Methods with a B that starts at zero: rank-stabilised scaling and LoRA+ speak of these."""
MATRICES = frozenset({"lora", "dora", "adalora", "loha", "lokr"})
"""Methods whose tensors are mostly matrices, which Muon needs."""

OFT_CHANGED = (0, 14)
"""First PEFT with another OFT; neither reads the other's files."""
OFT_MOST_PARAMETERS = 1_500_000_000
"""Larger bases are loaded in 16 bits, in which PEFT 0.9's OFT fails."""


@dataclass(frozen=True)
class Recipe:
    """The keys of `train` that the rules read; docs as in params_train.py."""

    method: str
    rank: int
    alpha: int
    rslora: bool
    dropout: float
    rank_pattern: Mapping[str, int]
    alpha_pattern: Mapping[str, int]
    base_quantization: str
    optimizer: str
    lora_plus_ratio: float
    ema_decay: float


@dataclass(frozen=True)
class Surroundings:
    """What a recipe meets: the base, the device and the installed libraries."""

    layers: Mapping[str, tuple[int, int]]
    """Last part of an adapted layer's name → (inputs, outputs)."""
    parameters: int
    """Elements of the base."""
    device: str
    compute_dtype: str
    peft: str
    bitsandbytes: str | None
    export_dtype: str
    max_rank: int


@dataclass(frozen=True)
class Fault:
    """One thing that cannot be, and what mends it."""

    problem: str
    remedy: str


def adapter_size(train: Recipe, layers: Mapping[str, tuple[int, int]], rank: int) -> int:
    """Elements of the adapter of one block at another `rank`, patterns as they are."""
    return elements(
        PEFT_TYPES[train.method],
        layers,
        rank,
        dora=train.method == "dora",
        patterns=train.rank_pattern,
        inputs=FEEDFORWARD,
    )


def allowed_storage(method: str, options: list[str]) -> list[str]:
    """Those of the possible forms of the base that the method can be trained on."""
    return [one for one in options if one in STORAGE[method]]


def check_recipe(train: Recipe, around: Surroundings) -> None:
    """Refuse what cannot be trained or loaded, all of it in one message.

    Raises:
        UserError: naming every key and value that does not go together.
    """
    rules = (_storage, _patterns, _settings, _lokr, _oft, _ia3, _optimizer)
    faults = [fault for rule in rules for fault in rule(train, around)]
    if faults:
        remedies = dict.fromkeys(fault.remedy for fault in faults)
        raise UserError("; ".join(fault.problem for fault in faults), " ".join(remedies))


def _storage(train: Recipe, _: Surroundings) -> list[Fault]:
    asked, method = train.base_quantization, train.method
    if asked == "auto" or asked in STORAGE[method]:
        return []
    why = NOT_FP8 if asked == "fp8" else WHY_NOT[method]
    usable = " or ".join(["auto", *sorted(STORAGE[method])])
    return [
        Fault(
            f"train.method: {method} on train.base_quantization: {asked} ({why})",
            f"Set train.base_quantization to {usable}, or train.method to lora.",
        )
    ]


def _patterns(train: Recipe, around: Surroundings) -> list[Fault]:
    faults = []
    for key, pattern, known in (
        ("rank_pattern", train.rank_pattern, RANK_PATTERNS),
        ("alpha_pattern", train.alpha_pattern, ALPHA_PATTERNS),
    ):
        if pattern and train.method not in known:
            faults.append(
                Fault(
                    f"train.{key}: PEFT 0.9 has none for {train.method}",
                    f"Set train.{key} to {{}}, or train.method to {', '.join(sorted(known))}.",
                )
            )
        faults += [
            Fault(
                f"train.{key}: {name!r} is no adapted layer",
                f"Name layers among {', '.join(sorted(around.layers))}.",
            )
            for name in sorted(pattern.keys() - around.layers.keys())
        ]
        for name, value in sorted(pattern.items()):
            most = around.max_rank if key == "rank_pattern" else None
            if value < 1 or (most is not None and value > most):
                limit = "at least 1" if most is None else f"1 to verify.max_rank {most}"
                faults.append(Fault(f"train.{key}: {name} = {value}", f"Use {limit}."))
    return faults


def _settings(train: Recipe, _: Surroundings) -> list[Fault]:
    method = train.method
    checks = (
        (
            train.rslora and method not in ZERO_B,
            f"train.rslora: PEFT 0.9 ignores it for {method}",
            "Set train.rslora to false.",
        ),
        (
            train.dropout > 0 and method not in INPUT_DROPOUT,
            f"train.dropout: {train.dropout:g}, but {method} has none on its input",
            "Set train.dropout to 0.",
        ),
        (
            train.lora_plus_ratio != 1 and method not in ZERO_B,
            f"train.lora_plus_ratio: {method} has no B matrix that starts at zero",
            "Set train.lora_plus_ratio to 1.",
        ),
    )
    return [Fault(problem, remedy) for wrong, problem, remedy in checks if wrong]


def _lokr(train: Recipe, _: Surroundings) -> list[Fault]:
    """PEFT 0.9 does not scale LoKr; newer versions do, by alpha/rank."""
    if train.method != "lokr":
        return []
    names = ["", *sorted(train.rank_pattern.keys() | train.alpha_pattern.keys())]
    faults = []
    for name in names:
        rank = train.rank_pattern.get(name, train.rank)
        alpha = train.alpha_pattern.get(name, train.alpha)
        if rank != alpha:
            where = f" of {name}" if name else ""
            faults.append(
                Fault(
                    f"train.alpha: {alpha}{where} with rank {rank} and lokr, which PEFT 0.9 loads "
                    "without the factor alpha/rank that newer versions apply",
                    "Set alpha equal to the rank.",
                )
            )
    return faults


def _oft(train: Recipe, around: Surroundings) -> list[Fault]:
    if train.method != "oft":
        return []
    faults = []
    if _version(around.peft) >= OFT_CHANGED:
        faults.append(
            Fault(
                f"train.method: oft with peft {around.peft}, whose OFT PEFT 0.9 cannot read",
                "Install peft 0.9.0.",
            )
        )
    if around.compute_dtype != "float32":
        faults.append(
            Fault(
                f"train.method: oft in {around.compute_dtype}: PEFT 0.9 turns in float32 and fails "
                "on states of another type",
                "Set train.precision to float32.",
            )
        )
    if around.parameters > OFT_MOST_PARAMETERS:
        faults.append(
            Fault(
                f"train.method: oft on {around.parameters:,} parameters, which are loaded in 16 "
                "bits, where PEFT 0.9 fails",
                "Use another method, or a base of at most 1.5 billion parameters.",
            )
        )
    for name, (_, rows) in sorted(around.layers.items()):
        blocks = train.rank_pattern.get(name, train.rank)
        if blocks >= 1 and rows % blocks:
            faults.append(
                Fault(
                    f"train.rank: {blocks} blocks of oft do not divide the {rows:,} outputs of "
                    f"{name}, so the turn would not be one",
                    "Choose a number of blocks that divides them.",
                )
            )
    return faults


def _ia3(train: Recipe, around: Surroundings) -> list[Fault]:
    """Its factors lie near 1, where bfloat16 has steps of 0.8 % and float16 of 0.1 %."""
    if train.method != "ia3" or around.export_dtype == "float32":
        return []
    return [
        Fault(
            f"export.dtype: {around.export_dtype} is too coarse for ia3, whose factors lie near 1",
            "Set export.dtype to float32; the adapter is small.",
        )
    ]


def _optimizer(train: Recipe, around: Surroundings) -> list[Fault]:
    asked, bits = train.optimizer, train.optimizer.startswith("adamw-8bit")
    checks = (
        (
            bits and around.device == "cpu",
            f"train.optimizer: {asked} needs a GPU",
            "Set train.optimizer to adamw.",
        ),
        (
            bits and around.device != "cpu" and around.bitsandbytes is None,
            f"train.optimizer: {asked} needs bitsandbytes, which is not installed",
            "Install bitsandbytes, or set train.optimizer to adamw.",
        ),
        (
            asked == "muon" and train.method not in MATRICES,
            f"train.optimizer: muon is for matrices, which {train.method} does not have",
            "Set train.optimizer to adamw.",
        ),
        (
            train.method == "adalora" and (train.ema_decay > 0 or asked == "schedule-free"),
            "train.ema_decay or schedule-free with the masks of adalora, which have no average",
            "Set train.ema_decay to 0 and train.optimizer to adamw.",
        ),
        (
            asked == "schedule-free" and train.ema_decay > 0,
            f"train.ema_decay: {train.ema_decay:g} with schedule-free, which averages itself",
            "Set train.ema_decay to 0.",
        ),
    )
    return [Fault(problem, remedy) for wrong, problem, remedy in checks if wrong]


def _version(text: str) -> tuple[int, int]:
    """Major and minor number; (0, 0) when the text holds none."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
