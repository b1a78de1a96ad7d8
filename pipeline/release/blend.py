"""Make one LoRA adapter of one or several: scaled towards the base, or averaged.

Reads folders of adapters that keep the contract; writes one folder of the same two
files. Called by `python -m pipeline.blend`. No torch; one module in memory at a time.

A scaled adapter keeps its tensors bit by bit: only the factor in its config changes.
An average is exact while the ranks of a module add up to no more than the limit, since
they are then put side by side (factors.py); beyond it the best update of that rank is
taken, and its error told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.base.adapter_format import CONFIG_FILE, KEY_PREFIX, WEIGHTS_FILE, lora_key
from pipeline.base.artifacts import (
    fsync_folder,
    remove_tree,
    replacing,
    require_free_space,
    write_json,
)
from pipeline.base.errors import UserError
from pipeline.base.params import VerifyParams
from pipeline.base.safetensors_file import BYTES_PER_ELEMENT
from pipeline.release.adapter_config import Config, rank_of, scale_of
from pipeline.release.case import A, B, Case
from pipeline.release.contract import STATIC_RULES, faults, judge
from pipeline.release.factors import Joined, Matrix, Update, common_factor, cut
from pipeline.release.tensor_data import (
    Bits,
    Rounding,
    chunks,
    decode,
    encode,
    write_safetensors,
)

SELECTING = ("target_modules", "layers_to_transform", "layers_pattern")
"""Keys that decide which modules an adapter has."""


@dataclass(frozen=True)
class Source:
    """One adapter of a blend."""

    case: Case
    weight: float
    """Its share of the blend."""

    def matrix(self, module: str, part: str) -> Matrix:
        """One factor of a module's update as float32."""
        info = self.case.modules[module][part]
        with (self.case.folder / WEIGHTS_FILE).open("rb") as stream:
            bits = np.concatenate(list(chunks(stream, self.case.header, info)))
        return decode(bits, info.dtype).reshape(info.shape)

    def factor(self, module: str) -> float:
        """Weight times the factor that the config puts on B·A."""
        scale = scale_of(self.case.config, module)
        return self.weight * (scale if scale is not None else 1.0)


@dataclass
class Plan:
    """What a blend will hold, known before a tensor is read."""

    config: Config
    ranks: dict[str, int]
    shapes: dict[str, tuple[int, ...]]
    dtype: str
    errors: dict[str, float] = field(default_factory=dict)
    """Module → error of its cut, filled while it is written; 0 where it is exact."""
    rounding: Rounding = field(default_factory=Rounding)
    """What the type of the file costs beyond that."""


def open_sources(
    folders: list[Path], weights: list[float], base: Path, limits: VerifyParams
) -> list[Source]:
    """The adapters with their shares of the blend, each judged by the static contract.

    Args:
        folders: the adapters.
        weights: their weights, of any sum; taken as shares of that sum.

    Raises:
        UserError: an adapter breaks the contract or is not plain LoRA, a weight is not positive.
    """
    if not folders or len(folders) != len(weights) or not all(0 < w < 1e6 for w in weights):
        raise UserError(
            f"{len(folders)} adapters with weights {weights}", "Give one positive weight to each."
        )
    sources = []
    for folder, weight in zip(folders, weights, strict=True):
        case = Case(folder, base, limits)
        broken = faults(judge(case, STATIC_RULES))
        if broken:
            raise UserError(
                f"{folder} breaks the contract: {broken[0].id}, {broken[0].detail}",
                "Blend adapters that `python -m pipeline.verify` accepts.",
            )
        if case.kind != "LORA" or case.config.get("use_dora"):
            raise UserError(
                f"{folder}: {'DoRA' if case.kind == 'LORA' else case.kind} is no sum of updates",
                "Blend adapters of plain LoRA or rsLoRA.",
            )
        sources.append(Source(case, weight / sum(weights)))
    return sources


def scaled_config(config: Config, alpha: float) -> Config:
    """The config with `alpha` times the factor on every update."""
    patterns = config.get("alpha_pattern") or {}
    return {
        **config,
        "lora_alpha": _whole(alpha * config["lora_alpha"]),
        "alpha_pattern": {key: _whole(alpha * value) for key, value in patterns.items()},
    }


def _whole(value: float) -> int | float:
    """An integer where it is one: some readers take no fractions."""
    return int(value) if float(value).is_integer() else float(value)


def scale_folder(source: Path, config: Config, target: Path, alpha: float) -> None:
    """Write the adapter whose update is `alpha` times that of another; tensors unchanged.

    With 1 it is the same adapter, with 0 it does nothing, and the logits of what is
    between lie between as far as the model is linear.
    """
    write_json(target / CONFIG_FILE, scaled_config(config, alpha))
    with (source / WEIGHTS_FILE).open("rb") as stream, replacing(target / WEIGHTS_FILE) as path:
        with path.open("wb") as out:
            while piece := stream.read(1 << 24):
                out.write(piece)
    fsync_folder(target)


def plan_average(sources: list[Source], alpha: float, max_rank: int, dtype: str) -> Plan:
    """Ranks, shapes and config of an average."""
    modules = sorted({module for source in sources for module in source.case.modules})
    ranks: dict[str, int] = {}
    alphas: dict[str, float] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for module in modules:
        own = [source for source in sources if module in source.case.modules]
        total = sum(rank_of(source.case.config, module) for source in own)
        ranks[module] = rank = min(total, max_rank)
        sides = own[0].case.base_shapes[f"{module}.weight"]
        shapes[lora_key(module, "A")] = (rank, sides[1])
        shapes[lora_key(module, "B")] = (sides[0], rank)
        # A cut update carries its size in its factors.
        scale = common_factor([s.factor(module) for s in own]) if total <= max_rank else 1.0
        alphas[module] = scale * alpha * rank
    return Plan(_average_config(sources, ranks, alphas), ranks, shapes, dtype)


def _average_config(
    sources: list[Source], ranks: dict[str, int], alphas: dict[str, float]
) -> Config:
    """Plain LoRA at the commonest rank and alpha; other modules by their full names."""
    first = sources[0].case.config
    alike = all(_selecting(source.case.config) == _selecting(first) for source in sources) and all(
        source.case.modules.keys() == ranks.keys() for source in sources
    )
    choice = {key: first.get(key) for key in SELECTING} if alike else {"target_modules": [*ranks]}
    rank = int(_commonest([*ranks.values()]))
    alpha = _commonest([*alphas.values()])
    kept = {key: value for key, value in first.items() if key not in SELECTING}
    return {
        **kept,
        **choice,
        "r": rank,
        "lora_alpha": _whole(alpha),
        "use_rslora": False,
        "lora_dropout": 0.0,
        "rank_pattern": {name: r for name, r in ranks.items() if r != rank},
        "alpha_pattern": {name: _whole(a) for name, a in alphas.items() if a != alpha},
    }


def _selecting(config: Config) -> list[Any]:
    found = [config.get(key) for key in SELECTING]
    return [sorted(value) if isinstance(value, list) else value for value in found]


def _commonest(values: Sequence[float]) -> float:
    return Counter(values).most_common(1)[0][0]


def average(sources: list[Source], module: str, rank: int) -> Joined:
    """One module of an average."""
    own = [source for source in sources if module in source.case.modules]
    return cut(
        [Update(s.factor(module), s.matrix(module, A), s.matrix(module, B)) for s in own], rank
    )


def write_average(sources: list[Source], plan: Plan, target: Path) -> None:
    """Write the two files of an average, and note the errors in the plan."""
    last: dict[str, Joined] = {}

    def data(name: str) -> Iterator[Bits]:
        module, _, part = name.removeprefix(KEY_PREFIX).rpartition(".lora_")
        if module not in last:
            # A and B of a module follow each other in the file.
            last.clear()
            last[module] = average(sources, module, plan.ranks[module])
            plan.errors[module] = last[module].error
        matrix = last[module].a if part == "A.weight" else last[module].b
        values = np.ascontiguousarray(matrix).reshape(-1)
        bits = encode(values, plan.dtype)
        plan.rounding.note(values, decode(bits, plan.dtype), plan.dtype)
        yield bits

    needed = sum(int(np.prod(shape)) for shape in plan.shapes.values())
    require_free_space(target, needed * BYTES_PER_ELEMENT[plan.dtype], "the blended adapter")
    write_json(target / CONFIG_FILE, plan.config)
    with replacing(target / WEIGHTS_FILE) as temporary:
        write_safetensors(temporary, plan.shapes, plan.dtype, data)
    fsync_folder(target)


def blend(
    sources: list[Source], target: Path, alpha: float, limits: VerifyParams, dtype: str | None
) -> dict[str, Any]:
    """Write a blend as an ordinary adapter; it is judged before it is there.

    Args:
        sources: of `open_sources`.
        target: a folder that does not exist yet.
        alpha: factor on the whole update, above 0: 1 is the average itself, and the
            closer to 0, the closer to the base.
        dtype: code of the tensors' type; None for that of the first adapter.

    Returns:
        `rank` (largest), `cut_modules` (how many were cut to the limit), `largest_error`
        (of a cut, relative, Frobenius), `max_relative_rounding_error` (of a value, by
        the type of the file) and `dtype`.

    Raises:
        UserError: the target exists, alpha is not positive, or the result breaks the contract.
    """
    if not 0 < alpha < 1e6:
        raise UserError(f"alpha = {alpha:g}", "Give a positive one; at 0 the base itself is left.")
    if target.exists():
        raise UserError(f"{target}: exists already", "Name another folder, or remove it.")
    dtype = dtype or next(iter(sources[0].case.header.tensors.values())).dtype
    half = target.with_name(f".{target.name}.blending")
    remove_tree(half)
    half.mkdir(parents=True)
    told = _write(sources, half, alpha, limits.max_rank, dtype)
    broken = faults(judge(Case(half, sources[0].case.base, limits), STATIC_RULES))
    if broken:
        remove_tree(half)
        raise UserError(
            f"the blend breaks the contract: {broken[0].id}, {broken[0].detail}",
            "Blend other adapters or with other weights.",
        )
    half.rename(target)
    return told


def _write(
    sources: list[Source], target: Path, alpha: float, max_rank: int, dtype: str
) -> dict[str, Any]:
    only = sources[0].case if len(sources) == 1 else None
    if only is not None and next(iter(only.header.tensors.values())).dtype == dtype:
        scale_folder(only.folder, only.config, target, alpha)
        rank = max(rank_of(only.config, module) for module in only.modules)
        return _told(rank, [], 0.0, dtype)
    plan = plan_average(sources, alpha, max_rank, dtype)
    write_average(sources, plan, target)
    errors = [error for error in plan.errors.values() if error]
    return _told(max(plan.ranks.values()), errors, plan.rounding.relative, dtype)


def _told(rank: int, errors: list[float], rounding: float, dtype: str) -> dict[str, Any]:
    return {
        "rank": rank,
        "cut_modules": len(errors),
        "largest_error": max(errors, default=0.0),
        "max_relative_rounding_error": rounding,
        "dtype": dtype,
    }
